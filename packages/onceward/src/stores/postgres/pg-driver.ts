/** The slice of `pg` 8 that the store needs: a pool, and clients of it. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
}

/** Anything that runs a statement: a client inside the caller's own transaction, for instance. */
export interface PgClient {
  query(text: string, values?: unknown[]): Promise<PgResult>;
}

/** With a name, the server plans it once for each connection and then knows it by that. */
export interface PgStatement {
  readonly name?: string;
  readonly text: string;
  readonly values: unknown[];
}

export interface PgResult {
  readonly rows: readonly unknown[];
  /** What the server says it has carried out: the first word, of COMMIT for instance, which may be another. */
  readonly command?: string;
}

export interface PgPoolClient extends PgClient {
  /** A wrapped client may ignore `done` and return a promise of the result. */
  query(statement: PgStatement, done: (error: Error | null, result: PgResult) => void): unknown;
  query(text: string, values?: unknown[]): Promise<PgResult>;
  /** `true` ends the connection instead of giving it back. */
  release(destroy?: boolean): void;
  on(event: 'notice' | 'notification' | 'error', listener: (message: PgMessage) => void): unknown;
  removeListener(
    event: 'notice' | 'notification' | 'error',
    listener: (message: PgMessage) => void,
  ): unknown;
}

/** A notice, a notification or an error, as far as the store reads it. */
export interface PgMessage {
  readonly severity?: string | undefined;
  readonly message?: string | undefined;
  readonly payload?: string | undefined;
}
