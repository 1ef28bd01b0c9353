import type { EngineEvent, OperationId } from 'onceward';

/** Jobs that wait for another run are given back, and still open. */
const JOB = /^job:/;

/**
 * Which records are pending or in doubt, as far as this process knows: what it saw in the store, and what the engine
 * has emitted since. Ids and not numbers, so that a repeated event changes nothing.
 */
export class OpenRecords {
  readonly #keys = new Map<string, Set<string>>();
  readonly #ofTenant = new Map<string, number>();

  ofScope(scope: string): number {
    return this.#keys.get(scope)?.size ?? 0;
  }

  /** All scopes of the tenant that this scope belongs to. */
  ofTenant(scope: string): number {
    return this.#ofTenant.get(tenantOf(scope)) ?? 0;
  }

  has({ scope, key }: OperationId): boolean {
    return this.#keys.get(scope)?.has(key) === true;
  }

  add({ scope, key }: OperationId): void {
    let keys = this.#keys.get(scope);
    if (keys === undefined) {
      keys = new Set();
      this.#keys.set(scope, keys);
    }
    if (keys.has(key)) return;
    keys.add(key);
    const tenant = tenantOf(scope);
    this.#ofTenant.set(tenant, (this.#ofTenant.get(tenant) ?? 0) + 1);
  }

  delete({ scope, key }: OperationId): void {
    const keys = this.#keys.get(scope);
    if (keys?.delete(key) !== true) return;
    if (keys.size === 0) this.#keys.delete(scope);
    const tenant = tenantOf(scope);
    const left = (this.#ofTenant.get(tenant) ?? 1) - 1;
    if (left === 0) this.#ofTenant.delete(tenant);
    else this.#ofTenant.set(tenant, left);
  }

  note(event: EngineEvent): void {
    switch (event.type) {
      case 'claimed':
      case 'in_doubt':
        this.add(event.id);
        break;
      case 'released':
        if (!JOB.test(event.id.scope)) this.delete(event.id);
        break;
      case 'settled':
      case 'doubt_resolved':
        this.delete(event.id);
        break;
      default:
    }
  }
}

/** The scopes of a client begin with its tenant and a slash. */
function tenantOf(scope: string): string {
  const end = scope.indexOf('/');
  return end === -1 ? scope : scope.slice(0, end);
}
