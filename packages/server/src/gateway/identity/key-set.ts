import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  type FetchImplementation,
  type JSONWebKeySet,
  type RemoteJWKSet,
} from 'jose';
import { ConfigError } from '../../config/config-error.ts';
import type { Config } from '../../config/load-config.ts';
import { isUrl } from './identity-settings.ts';

const TIMEOUT_MS = 5_000;
/** A key that was withdrawn is forgotten after this time. */
const MAX_AGE_MS = 600_000;
/** A token with an unknown key causes a refetch, but no more often than this. */
const COOLDOWN_MS = 5_000;
/** After a failure nothing is fetched for this long, so that a server in trouble is not flooded. */
const PAUSE_MS = 1_000;

/** The public keys that tokens are verified with. A file is read as a URL is: kept, and read again when it must be. */
export function openKeySet(place: string): RemoteJWKSet {
  const url = isUrl(place) ? new URL(place) : pathToFileURL(place);
  return createRemoteJWKSet(url, {
    timeoutDuration: TIMEOUT_MS,
    cacheMaxAge: MAX_AGE_MS,
    cooldownDuration: COOLDOWN_MS,
    [customFetch]: pausing(url.protocol === 'file:' ? fromFile : fromServer),
  });
}

/** Stops the start for a key file that cannot be used. A server of keys may yet come up. */
export function requireKeySets({ settings, routes }: Config): void {
  const places = [settings.jwks, ...routes.map((route) => route.settings.jwks)];
  const files = new Set(places.filter((place) => typeof place === 'string' && !isUrl(place)));
  const problems = [...files].flatMap((file) => problemOf(String(file)) ?? []);
  if (problems.length > 0) throw new ConfigError(problems);
}

function problemOf(place: string): string | null {
  try {
    const keys = JSON.parse(readFileSync(place, 'utf8')) as JSONWebKeySet;
    createLocalJWKSet(keys);
    return keys.keys.length > 0 ? null : `ONCEWARD_JWKS names ${place}, which holds no key`;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ERR_JWKS_INVALID' ? 'it is no JSON Web Key Set' : (code ?? message);
    return `ONCEWARD_JWKS names ${place}, which cannot be used (${why})`;
  }
}

const fromFile: FetchImplementation = async (url) => new Response(await readFile(new URL(url)));

const fromServer: FetchImplementation = async (url, options) => {
  const response = await fetch(url, options);
  if (response.status === 200) return response;
  void response.body?.cancel().catch(() => {});
  throw new Error(`the key set was answered with status ${response.status}`);
};

function pausing(read: FetchImplementation): FetchImplementation {
  let failure: { readonly at: number; readonly error: unknown } | null = null;
  return async (url, options) => {
    if (failure !== null && performance.now() - failure.at < PAUSE_MS) throw failure.error;
    try {
      return await read(url, options);
    } catch (error) {
      failure = { at: performance.now(), error };
      throw error;
    }
  };
}
