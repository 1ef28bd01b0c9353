import type { Audit } from '../engine/events.ts';

/** Where nobody gave an audit trail: each change by hand is a line of JSON in what the process says of its troubles. */
export const stderrAudit: Audit = async (audit) => {
  console.error(JSON.stringify({ audit }));
};
