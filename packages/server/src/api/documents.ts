import { fileURLToPath } from 'node:url';
import serveStatic from '@fastify/static';
import swagger from '@fastify/swagger';
import { type Api, toOpenApi } from './zod-schemas.ts';

const PAGE = fileURLToPath(new URL('../../assets/docs/', import.meta.url));

/** Must run before the routes it is to describe. */
export async function describeApi(app: Api, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Onceward',
        version,
        description: 'Make any operation happen once, no matter who retries it.',
      },
      tags: [
        { name: 'demo', description: 'A small orders API to try retries on.' },
        { name: 'operations', description: 'The engine, for services in any language.' },
        { name: 'ledger', description: 'Transactions that post once, and what becomes of them.' },
        { name: 'admin', description: 'Reading records and changing them by hand.' },
        { name: 'credentials', description: 'Who may do what.' },
        { name: 'health', description: 'For operators and probes.' },
      ],
      components: {
        securitySchemes: {
          apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
          apiSecret: { type: 'apiKey', in: 'header', name: 'X-Api-Secret' },
        },
      },
    },
    transform: toOpenApi,
  });
}

/** The document itself, and a page to read it in. */
export async function serveDocuments(app: Api): Promise<void> {
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
  await app.register(serveStatic, { root: PAGE, prefix: '/docs/', decorateReply: false });
  app.get('/docs', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/docs/'));
}
