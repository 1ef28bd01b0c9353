export type WriterResult =
  | {
      readonly ok: true;
      readonly txId: string;
      readonly blockHeight: number;
      readonly sequence: bigint;
      /** The ledger said that an earlier send of the same write is committed. */
      readonly wasRepeat: boolean;
    }
  | {
      readonly ok: false;
      /** A code of the ledger's refusals, else the status of the call. */
      readonly code: string;
      readonly message: string;
      /** `unknown`: it may have been committed. Only after `no` may it be written again. */
      readonly happened: 'no' | 'unknown';
    };

/**
 * Called with the end of a write. The end is stored until this has returned or its promise is fulfilled; if it never
 * does, this is called again when the stream is next opened.
 */
export type OnResult = (operations: readonly unknown[], result: WriterResult) => unknown;

/** The write could not be removed from the storage, so it will be sent again, and a refusal is not final. */
export function stillStored(result: WriterResult): WriterResult {
  if (result.ok) return result;
  const message = `${result.message} The storage failed to note that: it is sent again when the stream is opened again.`;
  return { ...result, message, happened: 'unknown' };
}
