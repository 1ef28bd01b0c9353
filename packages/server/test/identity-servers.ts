import { createHmac } from 'node:crypto';
import {
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type Server,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { exportJWK, exportSPKI, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';

async function listenOn(server: Server, port: number): Promise<string> {
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function end(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

/** An issuer of tokens with one key pair. */
export interface Signer {
  readonly jwk: JWK;
  readonly pem: string;
  sign(claims: JWTPayload, expiresIn?: string): Promise<string>;
}

export async function newSigner(kid: string, alg = 'RS256'): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return {
    jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' },
    pem: await exportSPKI(publicKey),
    sign: (claims, expiresIn = '1h') =>
      new SignJWT(claims)
        .setProtectedHeader({ alg, kid })
        .setIssuedAt()
        .setExpirationTime(expiresIn)
        .sign(privateKey),
  };
}

function part(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** What an attacker would send: no signature at all. */
export function unsigned(claims: JWTPayload): string {
  return `${part({ alg: 'none' })}.${part(claims)}.`;
}

/** What an attacker would send: the public key used as a shared secret. */
export function signedWithPublicKey(claims: JWTPayload, kid: string, pem: string): string {
  const text = `${part({ alg: 'HS256', kid })}.${part(claims)}`;
  return `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`;
}

/** Serves a key set, and counts how often it is asked for. */
export class KeySetServer {
  keys: JWK[] = [];
  status = 200;
  asked = 0;
  readonly #server = createServer((_request, response) => {
    this.asked += 1;
    response.writeHead(this.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ keys: this.keys }));
  });

  listen(port = 0): Promise<string> {
    return listenOn(this.#server, port);
  }

  close(): Promise<void> {
    return end(this.#server);
  }
}

export interface Verdict {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly delayMs?: number;
}

export interface AuthQuestion {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** An authentication server as a proxy asks it. */
export class ForwardAuthServer {
  readonly asked: AuthQuestion[] = [];
  answered = 0;
  readonly #decide: (question: AuthQuestion) => Verdict;
  readonly #server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const question = { method, url, headers };
    this.asked.push(question);
    const { status, headers: answer = {}, delayMs = 0 } = this.#decide(question);
    void sleep(delayMs).then(() => {
      this.answered += 1;
      response.writeHead(status, answer).end('a page of its own');
    });
  });

  constructor(decide: (question: AuthQuestion) => Verdict) {
    this.#decide = decide;
  }

  listen(port = 0): Promise<string> {
    return listenOn(this.#server, port);
  }

  close(): Promise<void> {
    return end(this.#server);
  }
}
