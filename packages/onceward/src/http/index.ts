export { REFUSALS, type RefusalKind } from '../refusals/refusals.ts';
export { type Captured, type HttpAnswer, isBodiless, NO_BYTES, TextAnswer } from './answer.ts';
export { HttpEvent, type HttpEventName } from './events.ts';
export type { Exchange } from './exchange.ts';
export { type Admission, HttpGuard } from './guard.ts';
export { type HeaderList, isHopByHop } from './header-list.ts';
export { FIRST_SENT_FORM, httpDate, parseHttpDate } from './http-date.ts';
export { IdempotencyContext } from './idempotency-context.ts';
export { decodeAnswer, encodeAnswer, HTTP_OUTCOME, type KeptAnswer } from './kept-answer.ts';
export { hasLeft, headersOf, sendAnswer } from './node/node-answer.ts';
export { NodeExchange } from './node/node-exchange.ts';
export { isWatched } from './node/response-watch.ts';
export { serveNode } from './node/serve-node.ts';
export type { HttpEffect, HttpOptions, HttpSettings, Mode, RouteOptions } from './options.ts';
export { PROBLEM_TYPE_PREFIX, type ProblemName, problemAnswer } from './problem.ts';
export {
  type BodyWatch,
  inspectBody,
  type OpenAnswer,
  PassingBody,
} from './request/body-source.ts';
export type { FingerprintRule } from './request/fingerprint.ts';
export { judgeKey, type KeyReading, readKey } from './request/key-header.ts';
export {
  BodyTap,
  bodyOf,
  keepRawBody,
  type ParsedBody,
  type RequestBody,
  skipRest,
} from './request/request-body.ts';
export {
  type KeyLines,
  nodeKeyLines,
  pathOf,
  type RequestFacts,
  webKeyLines,
} from './request/request-facts.ts';
export { toResponse, WebExchange, webBody, webTarget } from './web-exchange.ts';
