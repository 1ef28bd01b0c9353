import { createServer } from 'node:http';
import express, { type RequestHandler, type Response } from 'express';
import { idempotency, keepRawBody } from '../../src/doors/express.ts';
import type { DoorAnswer, DoorApp, ListeningDoor } from '../../src/testing/doors/door-app.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';
import { doorSuite } from '../../src/testing/doors/door-suite.ts';
import { OWN_WRAPS, PACKAGES } from './express-neighbours.ts';

/** The suite has a body parser of its own, and checks the end of an answer when it ends. */
const LEFT_OUT = ['json', 'urlencoded', 'raw', 'multer', 'rate-limit', 'cookie-session', 'waits'];
const CROWD = [...PACKAGES, ...OWN_WRAPS].filter(
  ({ name }) => !LEFT_OUT.some((part) => name.includes(part)),
);

function reply(response: Response, answer: DoorAnswer): void {
  switch (answer.kind) {
    case 'json':
      response.status(answer.status).json(answer.value);
      return;
    case 'bytes':
      response.status(answer.status).set(answer.headers).end(answer.bytes);
      return;
    case 'empty':
      response.status(answer.status).set(answer.headers).end();
      return;
    case 'readable':
      response.set(answer.headers);
      answer.readable.on('error', (error) => response.destroy(error)).pipe(response);
      return;
    case 'throw':
      throw answer.error;
  }
}

async function listen(
  { options, authorize, routes }: DoorApp,
  arrange: (door: RequestHandler, crowd: readonly RequestHandler[]) => readonly RequestHandler[],
): Promise<ListeningDoor> {
  const app = express();
  app.set('env', 'test');
  app.use((request, response, next) => {
    if (authorize(request.get('authorization'))) next();
    else response.status(401).end();
  });
  app.use(express.json({ verify: keepRawBody, strict: false }));
  const door = idempotency({ ...options, scopeFrom: (request) => request.get('x-user') ?? '' });
  const crowd = CROWD.map(({ mount }) => mount([]));
  for (const one of arrange(door, crowd)) app.use(one);
  for (const { method, path, respond } of routes) {
    const verb = method.toLowerCase() as 'get' | 'post' | 'put' | 'patch';
    app[verb](path, async (request, response) => {
      const { body, idempotency } = request;
      reply(response, await respond({ body, idempotency }));
    });
  }
  return listenOn(createServer(app));
}

const skip = {
  '[H5] a replay has the headers of the answer, less cookies, dates and connections':
    'the session sets a cookie of its own beside those that the law looks for',
};

doorSuite({
  name: 'express behind its neighbours',
  listen: (app) => listen(app, (door, crowd) => [...crowd, door]),
  skip,
});

doorSuite({
  name: 'express before its neighbours',
  listen: (app) => listen(app, (door, crowd) => [door, ...crowd]),
  skip,
});
