import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import {
  mintSecret,
  type Principal,
  type Role,
  type Secret,
  type StoredCredential,
} from './credential.ts';
import { readCredentialFile, writeCredentialFile } from './credential-file.ts';
import { hashSecret, matchesHash } from './secret-hash.ts';

export interface CredentialStoreOptions {
  /** `null` keeps the credentials in memory alone. */
  readonly path: string | null;
  /** The admin credential that the settings name. */
  readonly configured: Secret | null;
}

/** That a secret was found right: a keyed digest to know it again by, and whose it is. */
interface Proof {
  readonly digest: Buffer;
  readonly principal: Principal;
}

/** Guesses at secrets that may be checked at once. Each takes a thread of the four that also write files. */
const CHECKS_AT_ONCE = 2;
const CHECKS_WAITING = 30;

/**
 * The credentials and who bears them. A secret that was found right is remembered as a keyed digest, under a key that
 * dies with the process, so that the slow hash is paid once and not for every request.
 */
export class CredentialStore {
  readonly #path: string | null;
  readonly #kept = new Map<string, StoredCredential>();
  /** One entry a credential at most, and none for a guess that was wrong. */
  readonly #proven = new Map<string, Proof>();
  readonly #digestKey = randomBytes(32).toString('hex');
  #configuredKey: string | null = null;
  #checking = 0;
  readonly #waiting: (() => void)[] = [];
  #write: Promise<void> = Promise.resolve();

  private constructor(path: string | null) {
    this.#path = path;
  }

  /** Opens the store. `made` is the admin credential of a first start: the only time anyone sees its secret. */
  static async open(
    options: CredentialStoreOptions,
  ): Promise<{ store: CredentialStore; made: Secret | null }> {
    const store = new CredentialStore(options.path);
    const kept = options.path === null ? [] : await readCredentialFile(options.path);
    for (const credential of kept) store.#kept.set(credential.api_key, credential);
    if (options.configured !== null) {
      store.#configure(options.configured);
      return { store, made: null };
    }
    if (kept.some(({ role }) => role === 'admin')) return { store, made: null };
    return { store, made: await store.create('admin', null) };
  }

  list(): Omit<StoredCredential, 'salt' | 'hash'>[] {
    return [...this.#kept.values()].map(({ salt: _salt, hash: _hash, ...shown }) => shown);
  }

  /** A client that is given no tenant gets one of its own: only then can it not meet another's operations. */
  async create(role: Role, givenTenant: string | null): Promise<Secret> {
    const secret = mintSecret();
    const tenant = role === 'client' ? (givenTenant ?? secret.apiKey) : null;
    const hashed = await hashSecret(secret.apiSecret);
    const api_key = secret.apiKey;
    const created_at = new Date().toISOString();
    this.#kept.set(api_key, { api_key, role, tenant, ...hashed, created_at });
    await this.#save();
    return secret;
  }

  /** From this moment on the credential is worth nothing. */
  async revoke(apiKey: string): Promise<boolean> {
    if (!this.#kept.delete(apiKey)) return false;
    if (apiKey !== this.#configuredKey) this.#proven.delete(apiKey);
    await this.#save();
    return true;
  }

  /** Whether a credential has not been revoked: for what goes on long after its secret was checked. */
  isValid(apiKey: string): boolean {
    return apiKey === this.#configuredKey || this.#kept.has(apiKey);
  }

  /**
   * Who bears a credential that was found right before and has not been revoked since; `null` means that `verify` must
   * tell. For the way of every request: nothing here waits.
   */
  recall(apiKey: string, apiSecret: string): Principal | null {
    const proof = this.#proven.get(apiKey);
    if (proof === undefined || !timingSafeEqual(this.#digest(apiSecret), proof.digest)) return null;
    return proof.principal;
  }

  /** `null`: no such credential, or another secret. `'busy'`: too many are being checked to check one more. */
  async verify(apiKey: string, apiSecret: string): Promise<Principal | null | 'busy'> {
    const recalled = this.recall(apiKey, apiSecret);
    // The secret of the settings needs no slow hash: nothing of it is kept on disk that could be guessed at.
    if (recalled !== null || apiKey === this.#configuredKey) return recalled;
    const credential = this.#kept.get(apiKey);
    if (!(await this.#startCheck())) return 'busy';
    let right: boolean;
    try {
      // An unknown key takes as long as a wrong secret, so that the time does not tell which keys exist.
      right = await matchesHash(apiSecret, credential ?? NOBODY);
    } finally {
      this.#endCheck();
    }
    // It may have been revoked while the secret was being checked.
    if (!right || credential === undefined || this.#kept.get(apiKey) !== credential) return null;
    const principal = principalOf(credential);
    this.#proven.set(apiKey, { digest: this.#digest(apiSecret), principal });
    return principal;
  }

  #configure({ apiKey, apiSecret }: Secret): void {
    const principal: Principal = { apiKey, role: 'admin', tenant: null };
    this.#configuredKey = apiKey;
    this.#proven.set(apiKey, { digest: this.#digest(apiSecret), principal });
  }

  async #startCheck(): Promise<boolean> {
    if (this.#checking < CHECKS_AT_ONCE) {
      this.#checking += 1;
      return true;
    }
    if (this.#waiting.length >= CHECKS_WAITING) return false;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return true;
  }

  /** A place that becomes free is handed to whoever waits, so the count of places stays as it is. */
  #endCheck(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#checking -= 1;
    else next();
  }

  /** Of one length and compared whole, so that a key in front serves as well as an HMAC, at a third of its price. */
  #digest(secret: string): Buffer {
    return hash('sha256', this.#digestKey + secret, 'buffer');
  }

  /** One write at a time; each writes all that is known when it begins. */
  #save(): Promise<void> {
    const path = this.#path;
    if (path === null) return Promise.resolve();
    const write = this.#write.then(() => writeCredentialFile(path, [...this.#kept.values()]));
    this.#write = write.catch(() => {});
    return write;
  }
}

const NOBODY = { salt: '0'.repeat(32), hash: '0'.repeat(64) };

function principalOf({ api_key, role, tenant }: StoredCredential): Principal {
  return { apiKey: api_key, role, tenant };
}
