import { createServer, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { DoorAnswer } from '../testing/doors/door-app.ts';
import { listenOn } from '../testing/doors/door-listening.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
import { withIdempotency } from './node.ts';

function reply(response: ServerResponse, answer: DoorAnswer): void {
  switch (answer.kind) {
    case 'json':
      response.writeHead(answer.status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer.value));
      return;
    case 'bytes':
      response.writeHead(answer.status, { ...answer.headers } as Record<string, string>);
      // Two writes and an end, as code without a framework has it.
      response.write(answer.bytes.subarray(0, 1));
      response.write(answer.bytes.subarray(1));
      response.end();
      return;
    case 'empty':
      response.writeHead(answer.status, 'As It Was', answer.headers).end();
      return;
    case 'readable':
      response.writeHead(200, Object.entries(answer.headers).flat());
      answer.readable.on('error', (error) => response.destroy(error)).pipe(response);
      return;
    case 'throw':
      throw answer.error;
  }
}

doorSuite({
  name: 'node',
  async listen({ options, authorize, routes }) {
    const protectedListener = withIdempotency(
      async (request, response) => {
        const path = request.url?.split('?')[0];
        const route = routes.find((one) => one.method === request.method && one.path === path);
        if (route === undefined) {
          response.writeHead(404).end();
          return;
        }
        const sent = await text(request);
        const body: unknown = sent === '' ? undefined : JSON.parse(sent);
        reply(response, await route.respond({ body, idempotency: request.idempotency }));
      },
      {
        ...options,
        scopeFrom: (request) => String(request.headers['x-user']),
        onError: () => {},
      },
    );
    const server = createServer((request, response) => {
      if (authorize(request.headers.authorization)) protectedListener(request, response);
      else response.writeHead(401).end();
    });
    return listenOn(server);
  },
});
