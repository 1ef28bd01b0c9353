/** Places one order and, if asked to, kills itself at the n-th point on the way. */
import { openOrderDesk } from './order-desk.ts';
import type { StoreAddress } from './store-address.ts';

const [address, key, dieAt] = process.argv.slice(2) as [string, string, string];
let armed = false;
let points = 0;

const desk = await openOrderDesk(JSON.parse(address) as StoreAddress, () => {
  if (!armed) return;
  if (points === Number(dieAt)) process.kill(process.pid, 'SIGKILL');
  points += 1;
});
armed = true;
const execution = await desk.placeOrder(key);
process.send?.({ kind: execution.kind, points });
process.disconnect();
await desk.close();
