import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import {
  MINTED_SECRET,
  mintSecret,
  type Principal,
  type Role,
  type Secret,
  type StoredCredential,
} from './credential.ts';
import { readCredentialFile, writeCredentialFile } from './credential-file.ts';
import { GuessLimit, type Source } from './guess-limit.ts';
import { HashLane } from './hash-lane.ts';
import {
  hashSecret,
  matchesQuickly,
  matchesSlowly,
  NOBODY,
  type SecretHash,
} from './secret-hash.ts';

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

/** The file is written whole with every change. */
const KEPT_AT_MOST = 10_000;
/** Addresses from which the configured secret has come, right. */
const TRUSTED_AT_MOST = 1_000;

/** `'busy'`: too many wrong ones came from there, or too many are being checked. */
export type Verification = Principal | null | 'busy';

/**
 * The credentials and who bears them. A secret that was found right is remembered as a keyed digest, under a key that
 * dies with the process.
 *
 * Every failure takes the same time, so that timing does not reveal which keys exist: a known key with a wrong secret,
 * an unknown key, the key of the settings. While any credential still has the slow hash of the first version, each
 * of them pays for one.
 */
export class CredentialStore {
  readonly #path: string | null;
  readonly #kept = new Map<string, StoredCredential>();
  /** One entry a credential at most, and none for a guess that was wrong. */
  readonly #proven = new Map<string, Proof>();
  readonly #digestKey = randomBytes(32).toString('hex');
  readonly #nobody = randomBytes(32);
  readonly #guesses = new GuessLimit();
  /** Strangers have a lane of their own: however many come, they do not hold up those who are known. */
  readonly #known = new HashLane();
  readonly #strangers = new HashLane();
  readonly #checking = new Map<string, Promise<boolean | 'busy'>>();
  readonly #trusted = new Set<string>();
  #configuredKey: string | null = null;
  /** Credentials that still have the slow hash. */
  #slow = 0;
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
    store.#countSlow();
    if (options.configured !== null) {
      store.#configure(options.configured);
      return { store, made: null };
    }
    if (kept.some(({ role }) => role === 'admin')) return { store, made: null };
    return { store, made: await store.create('admin', null) };
  }

  list(): Omit<StoredCredential, keyof SecretHash>[] {
    return [...this.#kept.values()].map(
      ({ salt: _salt, hash: _hash, kind: _kind, ...shown }) => shown,
    );
  }

  /** How many may be kept, if no more may. */
  get limitReached(): number | null {
    return this.#kept.size >= KEPT_AT_MOST ? KEPT_AT_MOST : null;
  }

  /** A client that is given no tenant gets one of its own: only then can it not reach another's operations. */
  async create(role: Role, givenTenant: string | null, actor?: string): Promise<Secret> {
    const secret = mintSecret();
    const tenant = role === 'client' ? (givenTenant ?? secret.apiKey) : null;
    const hashed = hashSecret(secret.apiSecret);
    const api_key = secret.apiKey;
    const created_at = new Date().toISOString();
    const named = actor === undefined ? {} : { actor };
    this.#kept.set(api_key, { api_key, role, tenant, ...named, ...hashed, created_at });
    await this.#save();
    return secret;
  }

  /** From this moment on the credential is invalid. */
  async revoke(apiKey: string): Promise<boolean> {
    if (!this.#kept.delete(apiKey)) return false;
    if (apiKey !== this.#configuredKey) this.#proven.delete(apiKey);
    this.#countSlow();
    await this.#save();
    return true;
  }

  /** Whether a credential has not been revoked: for what goes on long after its secret was checked. */
  isValid(apiKey: string): boolean {
    return apiKey === this.#configuredKey || this.#kept.has(apiKey);
  }

  /**
   * Who bears a credential that was found right before and has not been revoked since; `null` means that `verify` must
   * decide. The fast path of every request: synchronous.
   */
  recall(apiKey: string, apiSecret: string, source: Source): Principal | null {
    const proof = this.#proven.get(apiKey);
    const isRight = timingSafeEqual(this.#digest(apiSecret), proof?.digest ?? this.#nobody);
    if (proof === undefined || !isRight) return null;
    return apiKey !== this.#configuredKey || this.#trusts(source, apiKey) ? proof.principal : null;
  }

  /** `null`: no such credential, or another secret. */
  async verify(apiKey: string, apiSecret: string, source: Source): Promise<Verification> {
    const recalled = this.recall(apiKey, apiSecret, source);
    if (recalled !== null) return recalled;
    const credential = apiKey === this.#configuredKey ? undefined : this.#kept.get(apiKey);
    const isSpent = this.#guesses.isSpent(source, apiKey);
    // A secret that was made here cannot be guessed, so a right one is let in however many wrong ones came before.
    if (isSpent && credential === undefined) return 'busy';
    // Counted before it is known to be wrong, or many at once would all be checked.
    if (!isSpent) this.#guesses.note(source, apiKey);
    const right = await this.#matches(apiKey, apiSecret, credential);
    if (right === 'busy') return 'busy';
    // It may have been revoked while the secret was being checked.
    if (!right || credential === undefined || !this.#kept.has(apiKey)) {
      return isSpent ? 'busy' : null;
    }
    return this.#prove(credential, apiSecret);
  }

  async #matches(
    apiKey: string,
    secret: string,
    credential: StoredCredential | undefined,
  ): Promise<boolean | 'busy'> {
    const isSlow = credential !== undefined && credential.kind === undefined;
    const right = matchesQuickly(secret, credential ?? NOBODY);
    if (this.#slow === 0 || (right && !isSlow)) return right;
    const lane = credential === undefined ? this.#strangers : this.#known;
    const found = await this.#shared(apiKey + this.#digest(secret).toString('hex'), () =>
      lane.run(apiKey, () => matchesSlowly(secret, credential ?? NOBODY)),
    );
    return found === 'busy' || isSlow ? found : right;
  }

  /** A client that begins with many requests at once is checked once. */
  #shared(name: string, check: () => Promise<boolean | 'busy'>): Promise<boolean | 'busy'> {
    const running = this.#checking.get(name);
    if (running !== undefined) return running;
    const found = check().finally(() => this.#checking.delete(name));
    this.#checking.set(name, found);
    return found;
  }

  /** The file gets the quick hash when it is written next; until then every start pays for the slow one again. */
  #prove(credential: StoredCredential, secret: string): Principal {
    const { api_key: apiKey, role, tenant, actor } = credential;
    const principal = { apiKey, role, tenant, ...(actor === undefined ? {} : { actor }) };
    this.#proven.set(apiKey, { digest: this.#digest(secret), principal });
    if (credential.kind === undefined && MINTED_SECRET.test(secret)) {
      this.#kept.set(apiKey, { ...credential, ...hashSecret(secret) });
      this.#countSlow();
    }
    return principal;
  }

  /**
   * The secret of the settings may be one that a person chose, and thus be guessed: from an address that has guessed
   * too often it is not even checked, unless the right one has come from there before.
   */
  #trusts(source: Source, apiKey: string): boolean {
    const address = source.remoteAddress ?? '';
    if (this.#trusted.has(address)) return true;
    if (this.#guesses.isSpent(source, apiKey)) return false;
    if (this.#trusted.size < TRUSTED_AT_MOST) this.#trusted.add(address);
    return true;
  }

  #countSlow(): void {
    this.#slow = 0;
    for (const { kind } of this.#kept.values()) if (kind === undefined) this.#slow += 1;
  }

  #configure({ apiKey, apiSecret }: Secret): void {
    const principal: Principal = { apiKey, role: 'admin', tenant: null };
    this.#configuredKey = apiKey;
    this.#proven.set(apiKey, { digest: this.#digest(apiSecret), principal });
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
