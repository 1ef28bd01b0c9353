import type { Ledger } from '@onceward/ledger';
import { Problem } from '../../api/problem.ts';
import type { Api, ZodTypes } from '../../api/zod-schemas.ts';
import type { Program } from '../../compose.ts';
import { accountRoutes } from './account-routes.ts';
import { refuseInEnvelopes } from './envelope.ts';
import { DoubledMember, parseExactJson } from './exact-json.ts';
import { proofRoutes } from './proof-routes.ts';
import { soundnessRoutes } from './soundness-routes.ts';
import { transactionRoutes } from './transaction-routes.ts';

/** The ledger as a REST API, with its own envelope for errors and its own reading of JSON. */
export async function serveRest(app: Api, program: Program, ledger: Ledger): Promise<void> {
  await app.register(async (scope) => {
    const api = scope.withTypeProvider<ZodTypes>();
    readJsonExactly(api);
    refuseInEnvelopes(api, program.log);
    api.setValidatorCompiler(() => () => true);
    transactionRoutes(api, ledger, program.credentials);
    accountRoutes(api, ledger, program.credentials);
    proofRoutes(api, ledger, program.credentials);
    soundnessRoutes(api, ledger, program.credentials);
  });
}

function readJsonExactly(api: Api): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('application/json', { parseAs: 'string' }, (request, text, done) => {
    if (request.headers['content-encoding'] !== undefined) {
      done(new Problem('unsupported-media-type', 'Send the body without a Content-Encoding.'));
      return;
    }
    try {
      done(null, parseExactJson(text as string));
    } catch (error) {
      const why = error instanceof DoubledMember ? error.message : 'The body is not valid JSON.';
      done(new Problem('invalid-request', why), undefined);
    }
  });
}
