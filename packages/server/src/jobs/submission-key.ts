import type { FastifyRequest } from 'fastify';
import { judgeKey, type KeyReading, nodeKeyLines, parseHttpDate, readKey } from 'onceward/http';

/** When it was first sent, if the client says so. `null`: it says so in a way that cannot be read. */
export function firstSentOf(request: FastifyRequest): number | null | undefined {
  const { firstSent } = nodeKeyLines(request.raw);
  return firstSent === undefined ? undefined : parseHttpDate(firstSent);
}

/** The key of a submission: in the header, in the body, or in both if they agree. */
export function submissionKey(request: FastifyRequest, inBody: string | undefined): KeyReading {
  const inHeader = readKey(nodeKeyLines(request.raw), 'jobs');
  if (inBody === undefined) return inHeader;
  const reading = judgeKey(inBody, 'jobs');
  if (inHeader.kind === 'none' || reading.kind !== 'key') return reading;
  if (inHeader.kind !== 'key' || inHeader.key === reading.key) return inHeader;
  const reason = 'the header and the body name different keys; send one of them';
  return { kind: 'conflict', reason };
}
