import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import express, { type RequestHandler } from 'express';
import { idempotency } from '../../src/doors/express.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';
import {
  type App,
  doorOptions,
  type Kind,
  LARGE,
  pieces,
  Refusal,
  Runs,
  type Start,
  TERMS,
} from './matrix.ts';

const answers: Record<Kind, RequestHandler> = {
  json: (request, response) => {
    response.status(201).json({ got: (request.body as unknown) ?? null });
  },
  stream: (_request, response) => {
    response.type('text');
    Readable.from(pieces()).pipe(response);
  },
  file: (_request, response) => {
    response.sendFile(TERMS);
  },
  redirect: (_request, response) => {
    response.redirect(303, '/orders/1');
  },
  refused: () => {
    throw new Refusal('sold out');
  },
  failed: () => {
    throw new Error('broken');
  },
  empty: (_request, response) => {
    response.status(204).end();
  },
  large: (_request, response) => {
    response.json(LARGE);
  },
  upload: (request, response) => {
    const files = request.files as { size: number }[] | undefined;
    response.json({ sizes: files?.map(({ size }) => size) ?? [] });
  },
  page: (_request, response) => {
    response.send('a page');
  },
};

/** An application with one route for each kind of answer. */
export function expressStart(
  before: () => readonly RequestHandler[],
  behind: () => readonly RequestHandler[],
  streams: 'keep' | 'pass' = 'keep',
): Start {
  return async (hasDoor): Promise<App> => {
    const app = express();
    app.set('env', 'test');
    const runs = new Runs();
    for (const one of before()) app.use(one);
    if (hasDoor) app.use(idempotency({ ...doorOptions(), streams }));
    for (const one of behind()) app.use(one);
    for (const [kind, answer] of Object.entries(answers)) {
      app.all(`/${kind}`, (request, response, next) => {
        runs.note(kind);
        return answer(request, response, next);
      });
    }
    return { ...(await listenOn(createServer(app))), runs };
  };
}
