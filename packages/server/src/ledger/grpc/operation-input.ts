import type { ConditionInput, OperationInput, Posting } from '@onceward/ledger';
import type {
  Condition,
  DeleteEntity,
  Operation,
  PostingSide,
  SetEntity,
} from '@onceward/ledger/rpc';

/**
 * Operations as the ledger takes them. Nothing is checked here: what is missing stays missing, and the ledger says
 * which operation it was.
 */
export function operationInputs(operations: readonly Operation[]): OperationInput[] {
  return operations.map(operationInput);
}

function operationInput({ kind }: Operation): OperationInput {
  switch (kind.case) {
    case 'setEntity':
      return { setEntity: setInput(kind.value) };
    case 'deleteEntity':
      return { deleteEntity: deleteInput(kind.value) };
    case 'createRelationship':
      return { createRelationship: kind.value };
    case 'deleteRelationship':
      return { deleteRelationship: kind.value };
    case 'post': {
      const { asset, amount, debit, credit } = kind.value;
      return { post: { asset, amount, debit: side(debit), credit: side(credit) } as Posting };
    }
    case undefined:
      return {} as OperationInput;
  }
}

function setInput({ key, value, condition, expiresAt }: SetEntity) {
  return {
    key,
    value,
    ...(condition === undefined ? {} : { condition: conditionInput(condition) }),
    ...(expiresAt === undefined ? {} : { expiresAt: Number(expiresAt) }),
  };
}

function deleteInput({ key, condition }: DeleteEntity) {
  return { key, ...(condition === undefined ? {} : { condition: conditionInput(condition) }) };
}

function conditionInput({ kind }: Condition): ConditionInput {
  if (kind.case === undefined) return {} as ConditionInput;
  return { [kind.case]: kind.value } as unknown as ConditionInput;
}

function side(given: PostingSide | undefined) {
  if (given === undefined) return undefined;
  const { accountId: account_id, balancePolicy: balance_policy } = given;
  return { account_id, ...(balance_policy === undefined ? {} : { balance_policy }) };
}
