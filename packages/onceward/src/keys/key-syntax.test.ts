import { describe, expect, it } from 'vitest';
import { checkKey, type KeyProfile, parseJobKey } from './index.ts';

const UUID = '550e8400-e29b-41d4-a716-446655440000';

describe('key syntax', () => {
  it.each<[KeyProfile, string]>([
    ['http', 'c01f7a4a0e8743a2a8dc1e8e5a60f658'],
    ['http', '01J9Z9W9J7P8CDQ8R32Q3V9R2M'],
    ['http', 'order-req_20241002_5L0GJYJ9'],
    ['http', 'a'.repeat(200)],
    ['sync', UUID],
    ['jobs', 'host1.dc1:12345:42:a1b2c3d4e5f60718'],
    ['jobs', 'c:0:0000000000000000'],
    ['jobs', 'c:18446744073709551615:0000000000000000'],
    ['ledger', 'invoice 2024/10 #7'],
    ['ledger', '~'.repeat(100)],
    ['stripe', 'order #7: 1/2 + "a"'],
    ['stripe', 'k'.repeat(255)],
  ])('[H2] profile %s accepts %s as it is', (profile, key) => {
    expect(checkKey(profile, key)).toEqual({ ok: true, key });
  });

  it.each<[KeyProfile, string, RegExp]>([
    ['http', '', /empty/],
    ['http', 'a'.repeat(201), /201 characters; the limit is 200/],
    ['http', 'YWJj+/==', /base64/],
    ['http', 'with space', /other than/],
    ['http', 'line\n', /other than/],
    ['sync', UUID.replaceAll('-', ''), /not a UUID/],
    ['sync', `${UUID}\n`, /not a UUID/],
    ['sync', '550e8400-e29b-11d4-a716-446655440000', /not of version 4/],
    ['sync', '550e8400-e29b-41d4-c716-446655440000', /variant/],
    ['jobs', 'no-colons', /form/],
    ['jobs', ':1:a1b2c3d4e5f60718', /client id/],
    ['jobs', '1:a1b2c3d4e5f60718', /form/],
    ['jobs', `${'c'.repeat(201)}:1:a1b2c3d4e5f60718`, /1 to 200/],
    ['jobs', 'has space:1:a1b2c3d4e5f60718', /visible/],
    ['jobs', 'c:01:a1b2c3d4e5f60718', /leading zeros/],
    ['jobs', 'c:-1:a1b2c3d4e5f60718', /sequence/],
    ['jobs', 'c:18446744073709551616:a1b2c3d4e5f60718', /sequence/],
    ['jobs', 'c:1:a1b2c3d4e5f6g7h8', /nonce/],
    ['jobs', 'c:1:a1b2', /nonce/],
    ['ledger', 'x'.repeat(101), /limit is 100/],
    ['ledger', 'bell\u0007', /printable/],
    ['ledger', 'Grüße', /printable/],
    ['ledger', ' padded', /space/],
    ['stripe', '', /empty/],
    ['stripe', 'x'.repeat(256), /256 characters; the limit is 255/],
    ['stripe', 'tab\tbed', /printable/],
    ['stripe', 'Grüße', /printable/],
    ['stripe', 'padded ', /space/],
  ])('[H2] profile %s refuses %j and says why', (profile, key, reason) => {
    const checked = checkKey(profile, key);
    expect(checked.ok).toBe(false);
    expect(checked).toHaveProperty('reason', expect.stringMatching(reason));
  });

  it('[H2] a UUID in capitals is the same key as in small letters', () => {
    expect(checkKey('sync', UUID.toUpperCase())).toEqual({ ok: true, key: UUID });
  });

  it('[H2] http keys that differ in case stay different', () => {
    expect(checkKey('http', 'ABC')).not.toEqual(checkKey('http', 'abc'));
  });

  it('[J1] a client id may hold colons: the key is read from the right', () => {
    expect(parseJobKey('host1.dc1:12345:42:A1B2C3D4E5F60718')).toEqual({
      ok: true,
      parts: { clientId: 'host1.dc1:12345', sequence: 42n, nonce: 'a1b2c3d4e5f60718' },
    });
  });
});
