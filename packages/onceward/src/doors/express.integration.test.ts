import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import express, { type Response } from 'express';
import type { DoorAnswer } from '../testing/doors/door-app.ts';
import { listenOn } from '../testing/doors/door-listening.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
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

const express4 = createRequire(import.meta.url)('express4') as typeof express;

for (const [name, framework] of Object.entries({ express, 'express 4': express4 })) {
  doorSuite({
    name,
    async listen({ options, authorize, routes }) {
      const app = framework();
      app.set('env', 'test');
      app.use((request, response, next) => {
        if (authorize(request.get('authorization'))) next();
        else response.status(401).end();
      });
      app.use(framework.json({ verify: keepRawBody, strict: false }));
      app.use(idempotency({ ...options, scopeFrom: (request) => request.get('x-user') ?? '' }));
      for (const { method, path, respond } of routes) {
        const verb = method.toLowerCase() as 'get' | 'post' | 'put' | 'patch';
        app[verb](path, (request, response, next) => {
          const { body, idempotency } = request;
          // Express 4 does not look at what a handler returns.
          respond({ body, idempotency })
            .then((answer) => reply(response, answer))
            .catch(next);
        });
      }
      return listenOn(createServer(app));
    },
  });
}
