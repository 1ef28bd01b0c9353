export {
  type DoorAnswer,
  type DoorApp,
  type DoorCall,
  type DoorRoute,
  type DoorSuiteOptions,
  doorSuite,
  type ListeningDoor,
} from './door-suite.ts';
export { type Fault, type FaultProxy, type Faults, startFaultProxy } from './fault-proxy.ts';
export { type DiskFaults, type DiskOperation, PowerCutDisk } from './power-cut-disk.ts';
export {
  type FaultyServer,
  type FaultyStore,
  type StoreFaultSuiteOptions,
  storeFaultSuite,
} from './store-fault-suite.ts';
export {
  type OpenedStore,
  type StoreLaw,
  type StoreSuiteOptions,
  storeSuite,
} from './store-suite.ts';
