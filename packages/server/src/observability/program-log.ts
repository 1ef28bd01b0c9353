import { type DestinationStream, type Logger, pino } from 'pino';

/** Headers and fields that never leave the process in a log line. */
const SECRET_PATHS = [
  'req.headers.authorization',
  'req.headers.cookie',
  'req.headers["x-api-secret"]',
  'req.headers["x-api-key"]',
  'req.headers["idempotency-key"]',
  'req.headers["x-idempotency-key"]',
];

/** JSON lines, one per event, on standard error: standard output is for what a command was asked for. */
export function programLog(level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: { service: 'onceward' },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: SECRET_PATHS, censor: '[hidden]' },
      formatters: { level: (label) => ({ level: label }) },
    },
    destination ?? pino.destination({ dest: 2, sync: false }),
  );
}
