import { IncomingMessage } from 'node:http';
import { wantsUpgrade } from './admission.ts';

/**
 * A request as Node's server makes it. With a listener for upgrades Node takes every request with an `Upgrade` header
 * for one, and its body for bytes of another protocol. It reads `upgrade` once the headers are known, which is
 * overridden here. (Later versions of Node have `shouldUpgradeCallback` for this.)
 */
export class GatewayRequest extends IncomingMessage {
  #offered = false;

  get upgrade(): boolean {
    return this.#offered && (this.method === 'CONNECT' || wantsUpgrade(this));
  }

  set upgrade(offered: boolean | null) {
    // Node's constructor sets it too, before this object has its fields.
    if (#offered in this) this.#offered = offered === true;
  }
}
