export { canonicalJson } from './canonical-json.ts';
export { DERIVED_KEY_LENGTH, deriveKey, type KeyMaterial, VOLATILE_FIELDS } from './derive.ts';
export {
  formatJobKey,
  type JobKey,
  type JobKeys,
  type JobKeysOptions,
  jobKeys,
  MAX_CLIENT_ID_LENGTH,
  MAX_SEQUENCE,
  type ParsedJobKey,
  parseJobKey,
} from './job-key.ts';
export {
  type CheckedKey,
  checkKey,
  type KeyProfile,
  MAX_HTTP_KEY_LENGTH,
  MAX_LEDGER_KEY_LENGTH,
} from './key-syntax.ts';
export { maskKey } from './mask.ts';
export { mintUlid, mintUuid, type UlidSource, ulidMinter } from './mint.ts';
export { type RandomBytes, toHex } from './random-bytes.ts';
export { sha256Hex } from './sha256.ts';
