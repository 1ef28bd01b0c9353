import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import type { Ledger, Refusal, WriteProof, WriteResult, WriteSuccess } from '@onceward/ledger';
import {
  type BatchWriteRequest,
  WriteError_Code,
  type WriteErrorSchema,
  type WriteRequest,
  type WriteResponseSchema,
  type WriteService,
  type WriteSuccessSchema,
} from '@onceward/ledger/rpc';
import { callerIn, firstSentIn } from './authenticate.ts';
import { headerMessage, pathMessage } from './block-message.ts';
import { operationInputs } from './operation-input.ts';
import { rpcErrorOf } from './rpc-error.ts';

export function writeService(ledger: Ledger): ServiceImpl<typeof WriteService> {
  return {
    async write(request, context) {
      const { operations, includeTxProof } = request;
      const input = {
        ...streamOf(request),
        ...firstSentIn(context),
        operations: operationInputs(operations),
      };
      return answer(await ledger.write(callerIn(context), input, { includeTxProof }));
    },
    async batchWrite(request, context) {
      const { includeTxProof } = request;
      const writes = request.writes.map((item) => ({
        operations: operationInputs(item.operations),
      }));
      const input = { ...streamOf(request), ...firstSentIn(context), writes };
      return answer(await ledger.batchWrite(callerIn(context), input, { includeTxProof }));
    },
  };
}

/** Whose stream is written to, and where in it. An actor goes along so that the ledger can refuse it. */
function streamOf(request: WriteRequest | BatchWriteRequest) {
  const { organization, vault = null, clientId, sequence, idempotencyKey, actor } = request;
  return {
    organization,
    vault,
    clientId,
    idempotencyKey,
    ...(sequence === undefined ? {} : { sequence }),
    ...(actor === undefined ? {} : { actor }),
  };
}

function answer(result: WriteResult): MessageInitShape<typeof WriteResponseSchema> {
  if (result.ok) return { result: { case: 'success', value: successMessage(result) } };
  if (!(result.code in WriteError_Code)) throw rpcErrorOf(result);
  return { result: { case: 'error', value: errorMessage(result) } };
}

function successMessage(success: WriteSuccess): MessageInitShape<typeof WriteSuccessSchema> {
  const { txId, blockHeight, assignedSequence } = success;
  return { txId, blockHeight: BigInt(blockHeight), assignedSequence, ...proofMessage(success) };
}

function proofMessage({ blockHeader, transaction, txProof }: Partial<WriteProof>) {
  if (blockHeader === undefined || transaction === undefined || txProof === undefined) return {};
  const { position, count, path } = txProof;
  return {
    blockHeader: headerMessage(blockHeader),
    transaction,
    txProof: { position, count, path: pathMessage(path) },
  };
}

function errorMessage(refusal: Refusal): MessageInitShape<typeof WriteErrorSchema> {
  const { message, lastCommittedSequence, assignedSequence, committedTxId, key } = refusal;
  const { committedBlockHeight, currentVersion } = refusal;
  return {
    code: WriteError_Code[refusal.code as keyof typeof WriteError_Code],
    message,
    ...(lastCommittedSequence === undefined ? {} : { lastCommittedSequence }),
    ...(assignedSequence === undefined ? {} : { assignedSequence }),
    ...(committedTxId === undefined ? {} : { committedTxId }),
    ...(committedBlockHeight === undefined
      ? {}
      : { committedBlockHeight: BigInt(committedBlockHeight) }),
    ...(key === undefined ? {} : { key }),
    ...(currentVersion === undefined ? {} : { currentVersion: BigInt(currentVersion) }),
    ...proofMessage(refusal.proof ?? {}),
  };
}
