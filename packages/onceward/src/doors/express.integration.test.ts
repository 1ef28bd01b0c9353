import { createServer } from 'node:http';
import express, { type Response } from 'express';
import type { DoorAnswer } from '../testing/door-app.ts';
import { listenOn } from '../testing/door-listening.ts';
import { doorSuite } from '../testing/door-suite.ts';
import { idempotency, keepRawBody } from './express.ts';

function reply(response: Response, answer: DoorAnswer): void {
  switch (answer.kind) {
    case 'json':
      response.status(answer.status).json(answer.value);
      return;
    case 'bytes':
      response.status(answer.status);
      for (const [name, value] of Object.entries(answer.headers)) {
        response.setHeader(name, value);
      }
      response.end(answer.bytes);
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

doorSuite({
  name: 'express',
  async listen({ options, authorize, routes }) {
    const app = express();
    app.set('env', 'test');
    app.use((request, response, next) => {
      if (authorize(request.get('authorization'))) next();
      else response.status(401).end();
    });
    app.use(express.json({ verify: keepRawBody, strict: false }));
    app.use(idempotency({ ...options, scopeFrom: (request) => request.get('x-user') ?? '' }));
    for (const { method, path, respond } of routes) {
      const verb = method.toLowerCase() as 'get' | 'post' | 'put' | 'patch';
      app[verb](path, async (request, response) => {
        const { body, idempotency } = request;
        reply(response, await respond({ body, idempotency }));
      });
    }
    return listenOn(createServer(app));
  },
});
