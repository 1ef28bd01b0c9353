import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CredentialStore } from './credential-store.ts';

const folder = mkdtempSync(join(tmpdir(), 'onceward-credentials-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HERE = { remoteAddress: '127.0.0.1' };

let files = 0;
const newPath = () => join(folder, String((files += 1)), 'credentials.json');

describe('[H16] the credential store', () => {
  it('makes an admin credential at its first opening and no other', async () => {
    const path = newPath();
    const first = await CredentialStore.open({ path, configured: null });
    expect(first.made?.apiKey).toMatch(/^ak_/);
    expect(first.made?.apiSecret).toMatch(/^sk_/);
    const second = await CredentialStore.open({ path, configured: null });
    expect(second.made).toBeNull();
    const { apiKey = '', apiSecret = '' } = first.made ?? {};
    expect(await second.store.verify(apiKey, apiSecret, HERE)).toMatchObject({ role: 'admin' });
  });

  it('keeps no secret, in a file that only its owner may read', async () => {
    const path = newPath();
    const { made } = await CredentialStore.open({ path, configured: null });
    const text = readFileSync(path, 'utf8');
    expect(text).toContain(made?.apiKey);
    expect(text).not.toContain(made?.apiSecret.slice(3));
    expect(statSync(path).mode & 0o077).toBe(0);
  });

  it('knows a wrong secret and an unknown key, also after a right one', async () => {
    const { store, made } = await CredentialStore.open({ path: null, configured: null });
    const { apiKey = '', apiSecret = '' } = made ?? {};
    expect(await store.verify(apiKey, `${apiSecret}x`, HERE)).toBeNull();
    expect(await store.verify(apiKey, apiSecret, HERE)).not.toBeNull();
    expect(await store.verify(apiKey, apiSecret, HERE)).not.toBeNull();
    expect(await store.verify(apiKey, `${apiSecret}x`, HERE)).toBeNull();
    expect(await store.verify('ak_nobody', apiSecret, HERE)).toBeNull();
  });

  it('takes the credential of the settings instead of making one', async () => {
    const configured = { apiKey: 'ak_set', apiSecret: 'sk_set' };
    const { store, made } = await CredentialStore.open({ path: newPath(), configured });
    expect(made).toBeNull();
    expect(await store.verify('ak_set', 'sk_set', HERE)).toMatchObject({ role: 'admin' });
    expect(await store.verify('ak_set', 'sk_other', HERE)).toBeNull();
  });

  it('forgets a revoked credential at once and for good', async () => {
    const path = newPath();
    const { store } = await CredentialStore.open({ path, configured: null });
    const { apiKey, apiSecret } = await store.create('client', 'shop');
    expect(await store.verify(apiKey, apiSecret, HERE)).toEqual({
      apiKey,
      role: 'client',
      tenant: 'shop',
    });
    expect(await store.revoke(apiKey)).toBe(true);
    expect(await store.verify(apiKey, apiSecret, HERE)).toBeNull();
    expect(await store.revoke(apiKey)).toBe(false);
    const again = await CredentialStore.open({ path, configured: null });
    expect(await again.store.verify(apiKey, apiSecret, HERE)).toBeNull();
  });

  it('recalls at once what was found right, and only until it is revoked', async () => {
    const { store } = await CredentialStore.open({ path: null, configured: null });
    const { apiKey, apiSecret } = await store.create('client', 'shop');
    expect(store.recall(apiKey, apiSecret, HERE)).toBeNull();
    await store.verify(apiKey, apiSecret, HERE);
    expect(store.recall(apiKey, apiSecret, HERE)).toEqual({
      apiKey,
      role: 'client',
      tenant: 'shop',
    });
    expect(store.recall(apiKey, `${apiSecret}x`, HERE)).toBeNull();
    await store.verify('ak_nobody', apiSecret, HERE);
    expect(store.recall('ak_nobody', apiSecret, HERE)).toBeNull();
    const revoked = store.revoke(apiKey);
    expect(store.recall(apiKey, apiSecret, HERE)).toBeNull();
    await revoked;
  });

  it('checks no more guesses at the configured secret from where too many came', async () => {
    const configured = { apiKey: 'ak_set', apiSecret: 'sk_set' };
    const { store } = await CredentialStore.open({ path: null, configured });
    const there = { remoteAddress: '10.0.0.9' };
    for (let guess = 0; guess < 20; guess += 1) {
      expect(await store.verify('ak_set', `sk_${guess}`, there)).toBeNull();
    }
    expect(await store.verify('ak_set', 'sk_set', there)).toBe('busy');
    expect(await store.verify('ak_set', 'sk_set', HERE)).toMatchObject({ role: 'admin' });
  });

  it('takes a right secret that was made here, however many wrong ones came before', async () => {
    const { store } = await CredentialStore.open({ path: null, configured: null });
    const { apiKey, apiSecret } = await store.create('client', 'shop');
    const wrong = Array.from({ length: 200 }, () => store.verify(apiKey, 'sk_x', HERE));
    expect(new Set(await Promise.all(wrong))).toEqual(new Set([null, 'busy']));
    expect(await store.verify(apiKey, apiSecret, HERE)).toMatchObject({ tenant: 'shop' });
  });

  it('refuses a damaged file rather than start over', async () => {
    const path = newPath();
    await CredentialStore.open({ path, configured: null });
    writeFileSync(path, '{"version":1,');
    await expect(CredentialStore.open({ path, configured: null })).rejects.toThrow(path);
  });
});
