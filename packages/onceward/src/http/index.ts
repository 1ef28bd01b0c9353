export { REFUSALS, type RefusalKind } from '../refusals/refusals.ts';
export { type Captured, type HttpAnswer, isBodiless, NO_BYTES, TextAnswer } from './answer.ts';
export { type BodyWatch, inspectBody, type OpenAnswer, PassingBody } from './body-source.ts';
export { HttpEvent, type HttpEventName } from './events.ts';
export type { Exchange } from './exchange.ts';
export type { FingerprintRule } from './fingerprint.ts';
export { type Admission, HttpGuard } from './guard.ts';
export { type HeaderList, isHopByHop } from './header-list.ts';
export { FIRST_SENT_FORM, httpDate, parseHttpDate } from './http-date.ts';
export { IdempotencyContext } from './idempotency-context.ts';
export { decodeAnswer, encodeAnswer, HTTP_OUTCOME, type KeptAnswer } from './kept-answer.ts';
export { judgeKey, type KeyReading, readKey } from './key-header.ts';
export { hasLeft, headersOf, sendAnswer } from './node-answer.ts';
export { NodeExchange } from './node-exchange.ts';
export type { HttpEffect, HttpOptions, HttpSettings, Mode, RouteOptions } from './options.ts';
export { PROBLEM_TYPE_PREFIX, type ProblemName, problemAnswer } from './problem.ts';
export {
  BodyTap,
  bodyOf,
  keepRawBody,
  type ParsedBody,
  type RequestBody,
  skipRest,
} from './request-body.ts';
export {
  type KeyLines,
  nodeKeyLines,
  pathOf,
  type RequestFacts,
  webKeyLines,
} from './request-facts.ts';
export { isWatched } from './response-watch.ts';
export { serveNode } from './serve-node.ts';
export { toResponse, WebExchange, webBody, webTarget } from './web-exchange.ts';
