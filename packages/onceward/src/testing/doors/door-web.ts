import { ReadableStream } from 'node:stream/web';
import type { DoorAnswer } from './door-app.ts';

/** What a handler of the web kind returns for an answer of the suite. */
export function toWebResponse(answer: DoorAnswer): Response {
  switch (answer.kind) {
    case 'json':
      return Response.json(answer.value, { status: answer.status });
    case 'bytes': {
      const headers = new Headers();
      for (const [name, value] of Object.entries(answer.headers)) {
        for (const one of [value].flat()) headers.append(name, one);
      }
      return new Response(answer.bytes as Uint8Array<ArrayBuffer>, {
        status: answer.status,
        headers,
      });
    }
    case 'empty':
      return new Response(null, { status: answer.status, headers: answer.headers });
    case 'readable':
      // Node's own adapter, `Readable.toWeb`, throws where nothing can catch it when a caller leaves in the middle.
      return new Response(ReadableStream.from(answer.readable) as ReadableStream, {
        headers: answer.headers,
      });
    case 'throw':
      throw answer.error;
  }
}
