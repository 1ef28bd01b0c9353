import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import compression from 'compression';
import timeout from 'connect-timeout';
import cookieParser from 'cookie-parser';
import cookieSession from 'cookie-session';
import cors from 'cors';
import express, { type RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import session from 'express-session';
import { logger as winstonLogger } from 'express-winston';
import helmet from 'helmet';
import methodOverride from 'method-override';
import morgan from 'morgan';
import multer from 'multer';
import onFinished from 'on-finished';
import onHeaders from 'on-headers';
import { pinoHttp } from 'pino-http';
import responseTime from 'response-time';
import { expect } from 'vitest';
import winston from 'winston';
import { keepRawBody } from '../../src/doors/express.ts';
import type { DoorReply } from '../../src/testing/doors/door-client.ts';
import { ASSETS, has, type Kind, type Neighbour } from './matrix.ts';

type ExpressNeighbour = Neighbour<RequestHandler>;

function isZipped(reply: DoorReply, kind: Kind): void {
  if (!['file', 'large', 'stream'].includes(kind)) return;
  expect(reply.headers['content-encoding']).toBe('gzip');
}

const linesTo = (log: string[]) =>
  new Writable({
    write(chunk, _encoding, done) {
      log.push(String(chunk));
      done();
    },
  });

export const PACKAGES: readonly ExpressNeighbour[] = [
  {
    name: 'morgan',
    mount: (log) => morgan('combined', { stream: linesTo(log) }),
    isLogger: true,
  },
  {
    name: 'pino-http',
    mount: (log) => pinoHttp({}, linesTo(log)) as RequestHandler,
    isLogger: true,
  },
  {
    name: 'express-winston',
    mount: (log) =>
      winstonLogger({
        transports: [new winston.transports.Stream({ stream: linesTo(log) })],
      }) as RequestHandler,
    isLogger: true,
  },
  { name: 'compression', mount: () => compression(), works: isZipped },
  {
    name: 'compression of the smallest',
    mount: () => compression({ threshold: 0 }),
    works: isZipped,
  },
  {
    name: 'cookie-session',
    mount: () => storing(cookieSession({ name: 'cart', keys: ['not a secret'] })),
    works: has('set-cookie'),
    isOfOneAnswer: true,
  },
  {
    name: 'express-session',
    mount: () =>
      storing(session({ secret: 'not a secret', resave: true, saveUninitialized: true })),
    works: has('set-cookie'),
    isOfOneAnswer: true,
  },
  { name: 'response-time', mount: () => responseTime(), works: has('x-response-time') },
  { name: 'helmet', mount: () => helmet(), works: has('content-security-policy') },
  { name: 'cors', mount: () => cors(), works: has('access-control-allow-origin') },
  {
    name: 'express-rate-limit',
    mount: () => rateLimit({ limit: 1_000, standardHeaders: 'draft-7', skipFailedRequests: true }),
    works: has('ratelimit'),
  },
  { name: 'cookie-parser', mount: () => cookieParser() },
  { name: 'express.json', mount: () => express.json() },
  { name: 'express.json with raw bytes', mount: () => express.json({ verify: keepRawBody }) },
  { name: 'express.urlencoded', mount: () => express.urlencoded() },
  { name: 'express.raw', mount: () => express.raw({ type: 'application/json' }) },
  { name: 'express.static', mount: () => express.static(ASSETS) },
  { name: 'multer', mount: () => multer().any() },
  { name: 'connect-timeout', mount: () => timeout('30s') },
  { name: 'method-override', mount: () => methodOverride() },
];

/** Puts something new in the session, so that there is something to save. */
function storing(middleware: RequestHandler): RequestHandler {
  return (request, response, next) => {
    middleware(request, response, (error?: unknown) => {
      const holder = request as unknown as { session?: { item?: string } | null };
      if (holder.session) holder.session.item = 'widget';
      next(error);
    });
  };
}

type Any = (this: ServerResponse, ...all: unknown[]) => unknown;

/** Puts a method of its own over one of the response, as applications do. */
function wrap(
  name: 'end' | 'writeHead' | 'write' | 'json' | 'send' | 'setHeader',
  make: (inner: Any) => Any,
): RequestHandler {
  return (_request, response, next) => {
    const target = response as unknown as Record<string, Any>;
    target[name] = make(target[name]!);
    next();
  };
}

const through = (inner: Any): Any =>
  function (...all) {
    return inner.apply(this, all);
  };

/** What applications do to responses themselves. */
export const OWN_WRAPS: readonly ExpressNeighbour[] = [
  ...(['end', 'writeHead', 'write', 'json', 'send', 'setHeader'] as const).map((name) => ({
    name: `a wrap of res.${name}`,
    mount: () => wrap(name, through),
  })),
  {
    name: 'a wrap of res.writeHead that adds a line',
    mount: () =>
      wrap(
        'writeHead',
        (inner) =>
          function (...all) {
            this.appendHeader('x-added', 'once');
            return inner.apply(this, all);
          },
      ),
    works: (reply) => expect(reply.headers['x-added']).toBe('once'),
  },
  {
    name: 'a wrap of res.end that waits',
    mount: () =>
      wrap(
        'end',
        (inner) =>
          function (...all) {
            setTimeout(() => {
              if (!this.headersSent) this.setHeader('x-waited', 'yes');
              inner.apply(this, all);
            }, 2);
            return this;
          },
      ),
  },
  {
    name: 'a wrap of res.end that puts back what it found',
    mount: () =>
      wrap(
        'end',
        (inner) =>
          function (...all) {
            this.end = inner as ServerResponse['end'];
            return this.end(...(all as []));
          },
      ),
  },
  {
    name: 'on-headers',
    mount: () => (_request, response, next) => {
      onHeaders(response, () => response.appendHeader('x-on-headers', 'once'));
      next();
    },
    works: (reply) => expect(reply.headers['x-on-headers']).toBe('once'),
  },
  {
    name: 'on-finished',
    mount: (log) => (_request, response, next) => {
      onFinished(response, () => log.push('finished'));
      next();
    },
    isLogger: true,
  },
];
