import { memoryStore } from 'onceward/memory';
import { idempotencyOf, withIdempotency } from 'onceward/next';

let runs = 0;

const ANSWERS = {
  json: async (request) =>
    Response.json({ order: runs, asked: await request.json() }, { status: 201 }),
  binary: () =>
    new Response(
      Uint8Array.from({ length: 70_000 }, (_, at) => (at * 31) % 256),
      {
        headers: { 'content-type': 'application/octet-stream', 'x-run': String(runs) },
      },
    ),
  empty: () => new Response(null, { status: 204, headers: { 'x-run': String(runs) } }),
  cookies: () => {
    const headers = new Headers({ 'x-run': String(runs) });
    headers.append('set-cookie', 'a=1; Path=/; HttpOnly');
    headers.append('set-cookie', 'b=2; Expires=Wed, 21 Oct 2065 07:28:00 GMT');
    return new Response('two cookies', { headers });
  },
  stream: () => {
    const pieces = [`run ${runs}: `, 'one, ', 'two, ', 'three'];
    const body = new ReadableStream({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        const piece = pieces.shift();
        if (piece === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(piece));
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/plain' } });
  },
  slow: async () => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return Response.json({ order: runs });
  },
  thrown: () => {
    throw new Error('the shelf is empty');
  },
  attempt: (request) => {
    const { key, fence } = idempotencyOf(request);
    return Response.json({ key, fenced: fence > 0 });
  },
};

export const GET = () => Response.json({ runs });

export const POST = withIdempotency(
  async (request, { params }) => {
    const { kind } = await params;
    runs += 1;
    return ANSWERS[kind](request);
  },
  {
    store: memoryStore(),
    route: '/orders/:kind',
    scopeFrom: (request) => request.headers.get('x-user') ?? '',
    effect: { kind: 'external', onLapse: 'in_doubt' },
  },
);
