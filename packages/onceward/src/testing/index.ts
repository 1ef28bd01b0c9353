export {
  type DoorAnswer,
  type DoorApp,
  type DoorCall,
  type DoorRoute,
  type DoorSuiteOptions,
  doorSuite,
  type ListeningDoor,
} from './doors/door-suite.ts';
export { type Fault, type FaultProxy, type Faults, startFaultProxy } from './fault-proxy.ts';
export { type DiskFaults, type DiskOperation, PowerCutDisk } from './stores/power-cut-disk.ts';
export {
  type FaultyServer,
  type FaultyStore,
  type StoreFaultSuiteOptions,
  storeFaultSuite,
} from './stores/store-fault-suite.ts';
export {
  type OpenedStore,
  type StoreLaw,
  type StoreSuiteOptions,
  storeSuite,
} from './stores/store-suite.ts';
