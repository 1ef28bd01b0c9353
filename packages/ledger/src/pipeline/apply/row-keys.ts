/**
 * The keys of rows. Ids of organizations and vaults are made by the ledger and hold no slash, and what a caller
 * chose comes last, so no two things ever have one key.
 */
export function organizationKey(organization: string): string {
  return `organization/${organization}`;
}

export function vaultKey(organization: string, vault: string): string {
  return `vault/${organization}/${vault}`;
}

/** An organization's own scope has a name that no vault can have. */
function scopeOf(organization: string, vault: string | null): string {
  return `${organization}/${vault ?? '-'}`;
}

export function entityKey(organization: string, vault: string | null, key: string): string {
  return `entity/${scopeOf(organization, vault)}/${key}`;
}

export function relationshipKey(
  organization: string,
  vault: string | null,
  parts: readonly [resource: string, relation: string, subject: string],
): string {
  return `relationship/${scopeOf(organization, vault)}/${JSON.stringify(parts)}`;
}

export const CLIENT_PREFIX = 'client/';
export const ENTITY_PREFIX = 'entity/';

export function clientKey(organization: string, vault: string | null, client: string): string {
  return `${CLIENT_PREFIX}${scopeOf(organization, vault)}/${client}`;
}

/** What the state machine remembers and goes by, under the state root like everything else. */
export const KEYS_ROW = 'machine/keys';
export const SETTINGS_ROW = 'machine/settings';
export const SINCE_ROW = 'machine/keys-since';
