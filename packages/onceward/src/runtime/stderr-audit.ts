import type { Audit } from '../engine/events.ts';

/** The default audit trail: each change by hand is a line of JSON on standard error. */
export const stderrAudit: Audit = async (audit) => {
  console.error(JSON.stringify({ audit }));
};
