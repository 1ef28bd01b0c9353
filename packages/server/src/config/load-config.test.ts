import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { profiles } from 'onceward';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError } from './config-error.ts';
import { type ConfigInput, loadConfig } from './load-config.ts';
import { policyOf } from './policy.ts';
import { SETTINGS } from './settings.ts';
import { showConfig } from './show-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'onceward-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function file(content: unknown): string {
  const path = join(folder, `${(files += 1)}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

function problemsOf(input: Partial<ConfigInput>): readonly string[] {
  try {
    loadConfig({ env: {}, ...input });
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('[H18] a setting', () => {
  it('has its default when it is not set', () => {
    const { settings, sources } = loadConfig({ env: {} });
    expect(settings).toMatchObject({ port: 8080, host: '127.0.0.1', mode: 'enforce' });
    expect(sources.port).toEqual({ from: 'default' });
  });

  it('is taken from the flag before the environment before the file', () => {
    const path = file({ PORT: 1, HOST: 'file', ONCEWARD_DATA: 'file' });
    const { settings, sources } = loadConfig({
      env: { PORT: '2', HOST: 'environment' },
      flags: { port: '3' },
      file: path,
    });
    expect([settings.port, settings.host, settings.data]).toEqual([3, 'environment', 'file']);
    expect([sources.port.from, sources.host.from, sources.data.from]).toEqual([
      'flag',
      'environment',
      'file',
    ]);
  });

  it('is unset by an empty variable', () => {
    expect(loadConfig({ env: { PORT: '' } }).settings.port).toBe(8080);
  });

  it('for job submissions takes effect under its own name', () => {
    const { settings } = loadConfig({
      env: {
        IDEMPOTENCY_PENDING_TTL_SECONDS: '61',
        IDEMPOTENCY_COMMITTED_TTL_SECONDS: '301.5',
        IDEMPOTENCY_REJECTED_TTL_SECONDS: '62',
        IDEMPOTENCY_MAX_ENTRIES: '7',
        IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS: '11',
        IDEMPOTENCY_WAIT_FOR_PENDING: 'True',
        IDEMPOTENCY_PENDING_WAIT_TIMEOUT: '31',
      },
    });
    expect(policyOf('http', settings)).toMatchObject({
      leaseMs: 61_000,
      keepCommittedMs: 301_500,
      keepRejectedMs: 62_000,
      waitMs: 31_000,
    });
    expect(settings).toMatchObject({ maxEntries: 7, cleanupIntervalSeconds: 11 });
  });

  it('that is unset leaves the profile as it is', () => {
    const { settings } = loadConfig({ env: {} });
    for (const name of ['http', 'sync', 'jobs', 'ledger', 'stripe'] as const) {
      expect(policyOf(name, settings)).toEqual(profiles[name]);
    }
  });

  it('that forbids waiting makes every profile refuse at once', () => {
    const { settings } = loadConfig({ env: { IDEMPOTENCY_WAIT_FOR_PENDING: 'false' } });
    expect(policyOf('jobs', settings).waitMs).toBe(0);
  });

  it('has a name of its own, and so has its flag', () => {
    const all = Object.values(SETTINGS);
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    const flags = all.flatMap((entry) => ('flag' in entry ? [entry.flag] : []));
    expect(new Set(flags).size).toBe(flags.length);
  });
});

describe('[H18] a bad value stops the start and names the setting', () => {
  const bad: [name: string, value: string][] = [
    ['PORT', '65536'],
    ['PORT', '80 '],
    ['PORT', '0x50'],
    ['PORT', '-1'],
    ['HOST', 'a b'],
    ['ONCEWARD_STORE', 'floppy'],
    ['ONCEWARD_UPSTREAM', 'ftp://example.test'],
    ['ONCEWARD_UPSTREAM', 'http://user:secret@example.test'],
    ['IDEMPOTENCY_MODE', 'Enforce'],
    ['IDEMPOTENCY_SHADOW_SAMPLE_RATE', '1.1'],
    ['IDEMPOTENCY_METHODS', 'POST,post'],
    ['IDEMPOTENCY_EXCLUDED_PATHS', 'health'],
    ['IDEMPOTENCY_WAIT_FOR_PENDING', 'maybe'],
    ['IDEMPOTENCY_PENDING_TTL_SECONDS', 'NaN'],
    ['IDEMPOTENCY_MAX_ENTRIES', '1e5'],
    ['IDEMPOTENCY_COMMITTED_TTL_SECONDS', '0'],
    ['ONCEWARD_SCOPE_FROM', 'authorization'],
    ['ONCEWARD_SCOPE_FROM', 'header:'],
    ['ONCEWARD_SCOPE_FROM', 'header:a,,b'],
    ['ONCEWARD_SCOPE_FROM', 'header:a b'],
    ['ONCEWARD_SCOPE_FROM', 'cookie:a,b'],
    ['ONCEWARD_SCOPE_FROM', 'jwt:'],
    ['ONCEWARD_SCOPE_FROM', 'forward-auth:authelia'],
    ['ONCEWARD_SCOPE_FROM', 'forward-auth:http://user:secret@example.test'],
    ['ONCEWARD_JWKS', 'ftp://example.test/keys'],
    ['ONCEWARD_JWT_ALGORITHMS', 'RS256,HS256'],
    ['ONCEWARD_JWT_ALGORITHMS', 'none'],
  ];
  for (const [name, value] of bad) {
    it(`${name}=${value}`, () => {
      expect(problemsOf({ env: { [name]: value } })).toEqual([
        expect.stringMatching(new RegExp(`^${name} is .*; it must be .* \\(environment\\)$`)),
      ]);
    });
  }

  it('in a file, with the path of the file', () => {
    const path = file({ PORT: '80x', IDEMPOTENCY_MODE: 3 });
    expect(problemsOf({ file: path })).toEqual([
      expect.stringMatching(`^PORT is .*file ${path}`),
      expect.stringMatching(/^IDEMPOTENCY_MODE is 3/),
    ]);
  });

  it('and several are reported at once', () => {
    expect(problemsOf({ env: { PORT: 'x', IDEMPOTENCY_MODE: 'y' } })).toHaveLength(2);
  });

  it('without showing a secret', () => {
    const env = { ONCEWARD_API_KEY: 'ak_1', ONCEWARD_API_SECRET: 'hunter2' };
    const [problem] = problemsOf({ env });
    expect(problem).toContain('ONCEWARD_API_SECRET');
    expect(problem).not.toContain('hunter2');
  });

  it('and so does half a credential', () => {
    expect(problemsOf({ env: { ONCEWARD_API_KEY: 'ak_1' } })).toEqual([
      expect.stringContaining('ONCEWARD_API_SECRET'),
    ]);
  });
});

describe('[H19] the setting that says whose request it is', () => {
  it('takes headers, a claim, a cookie or an authentication server', () => {
    const forms = [
      'header:authorization,x-api-key',
      'header: X-User , X-Tenant',
      'cookie:__Host-session',
      'forward-auth:http://127.0.0.1:9091/api/verify?rd=1',
    ];
    for (const form of forms)
      expect(problemsOf({ env: { ONCEWARD_SCOPE_FROM: form } })).toEqual([]);
  });

  it('needs a key set for tokens, for the gateway and for each route', () => {
    const env = { ONCEWARD_SCOPE_FROM: 'jwt:https://example.test/tenant' };
    expect(problemsOf({ env })).toEqual([expect.stringContaining('ONCEWARD_JWKS')]);
    expect(problemsOf({ env: { ...env, ONCEWARD_JWKS: 'keys.json' } })).toEqual([]);
    const routes = [{ path: '/a' }, { path: '/b', ONCEWARD_SCOPE_FROM: 'jwt:sub' }];
    expect(problemsOf({ file: file({ routes }) })).toEqual([
      expect.stringMatching(/^routes\[1\]: .*ONCEWARD_JWKS/),
    ]);
  });

  it('is named where its predecessor is still set', () => {
    const name = 'ONCEWARD_SCOPE_HEADERS';
    const told = expect.stringContaining('write ONCEWARD_SCOPE_FROM=header:NAME');
    expect(problemsOf({ env: { [name]: 'x-user' } })).toEqual([told]);
    expect(problemsOf({ file: file({ routes: [{ path: '/', [name]: 'x' }] }) })).toEqual([told]);
  });
});

describe('[H18] an unknown name stops the start', () => {
  it('in the environment, with the name that was probably meant', () => {
    expect(problemsOf({ env: { IDEMPOTENCY_COMITTED_TTL_SECONDS: '1' } })).toEqual([
      expect.stringMatching(/did you mean IDEMPOTENCY_COMMITTED_TTL_SECONDS\?/),
    ]);
  });

  it('unless it belongs to another program', () => {
    expect(problemsOf({ env: { PATH: '/bin', LANG: 'C', NODE_ENV: 'test' } })).toEqual([]);
  });

  it('in the file', () => {
    expect(problemsOf({ file: file({ prot: 1 }) })).toEqual([
      expect.stringMatching(/^prot is no setting of onceward; did you mean PORT\?/),
    ]);
  });

  for (const [what, content] of [
    ['no JSON', '{'],
    ['a list', '[]'],
    ['nothing', 'null'],
  ] as const) {
    it(`in a file that holds ${what}`, () => {
      expect(problemsOf({ file: file(content) })).toHaveLength(1);
    });
  }

  it('of a file', () => {
    expect(problemsOf({ env: { ONCEWARD_CONFIG: join(folder, 'absent.json') } })).toEqual([
      expect.stringContaining('ENOENT'),
    ]);
  });
});

describe('[H15] the routes of the file', () => {
  it('change settings for a path', () => {
    const routes = [{ path: '/pay/*', IDEMPOTENCY_REQUIRE_KEY: true }, { path: '/o/:id' }];
    expect(loadConfig({ env: {}, file: file({ routes }) }).routes).toEqual([
      { path: '/pay/*', settings: { requireKey: true } },
      { path: '/o/:id', settings: {} },
    ]);
  });

  it('are refused with their place when they are wrong', () => {
    const routes = [
      { path: 'pay' },
      { path: '/a*b' },
      'x',
      { path: '/', IDEMPOTENCY_MODE: 'never' },
      { path: '/', IDEMPOTENCY_MAX_ENTRIES: 1 },
    ];
    const problems = problemsOf({ file: file({ routes }) });
    expect(problems.map((line) => line.slice(0, 9))).toEqual([
      'routes[0]',
      'routes[1]',
      'routes[2]',
      'routes[3]',
      'routes[4]',
    ]);
  });
});

describe('[H18] the settings can be shown', () => {
  it('with every value, where it came from, and secrets masked', () => {
    const env = { ONCEWARD_API_KEY: 'ak_1', ONCEWARD_API_SECRET: 'sk_hidden', PORT: '9' };
    const shown = showConfig(loadConfig({ env }));
    expect(shown).toHaveLength(Object.keys(SETTINGS).length);
    expect(shown.find(({ name }) => name === 'PORT')).toMatchObject({
      value: 9,
      source: 'environment',
    });
    expect(JSON.stringify(shown)).not.toContain('hidden');
  });
});
