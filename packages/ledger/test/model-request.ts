/** What the histories of the tests are made of. Accounts are named by their place in the list. */
export interface ModelTransaction {
  readonly kind: 'transaction';
  readonly credential: string;
  readonly key: string;
  /** Indexes of accounts. */
  readonly from: number;
  readonly to: number;
  readonly amount: bigint;
  readonly mustStayPositive: boolean;
}

export interface ModelWrite {
  readonly kind: 'write';
  readonly vault: boolean;
  readonly client: string;
  readonly key: number;
  readonly sequence: bigint | undefined;
  readonly entities: readonly {
    readonly name: string;
    readonly value: string;
    readonly onlyIfNew: boolean;
    readonly livesMs: number | undefined;
  }[];
}

export type ModelRequest = ModelTransaction | ModelWrite;
