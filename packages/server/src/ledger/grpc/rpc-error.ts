import { Code, ConnectError } from '@connectrpc/connect';
import { REFUSALS, type Refusal, type RefusalCode } from '@onceward/ledger';

/** The header that carries the ledger's own code beside the status. */
export const CODE_HEADER = 'onceward-code';

/** The answer to a request that never became a write: it is malformed, names nothing, or came at a bad time. */
export function rpcErrorOf({ code, message }: Refusal): ConnectError {
  const error = new ConnectError(`${code}: ${message}`, statusOf(code));
  error.metadata.set(CODE_HEADER, code);
  return error;
}

function statusOf(code: RefusalCode): Code {
  const { status, isMalformed } = REFUSALS[code];
  if (status === 404) return Code.NotFound;
  if (isMalformed) return Code.InvalidArgument;
  return status === 503 ? Code.Unavailable : Code.FailedPrecondition;
}
