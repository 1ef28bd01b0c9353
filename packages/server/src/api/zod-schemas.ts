import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SwaggerTransform } from '@fastify/swagger';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyTypeProvider,
  RawServerDefault,
} from 'fastify';
import { z } from 'zod';
import { type FieldError, Problem } from './problem.ts';

/** Routes name zod schemas; handlers get what these let through, with its type. */
export interface ZodTypes extends FastifyTypeProvider {
  validator: this['schema'] extends z.ZodType ? z.output<this['schema']> : unknown;
  serializer: this['schema'] extends z.ZodType ? z.input<this['schema']> : unknown;
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypes
>;

export function validateWithZod(app: Api): void {
  app.setValidatorCompiler<z.ZodType>(({ schema }) => (data) => {
    const parsed = schema.safeParse(data ?? {});
    return parsed.success ? { value: parsed.data } : { error: refusal(parsed.error) };
  });
  // The schemas of answers are for the document; answers are sent as they are.
  app.setSerializerCompiler(() => JSON.stringify);
}

const SHOWN_ISSUES = 10;

function refusal(error: z.ZodError): Problem {
  const errors: FieldError[] = error.issues.slice(0, SHOWN_ISSUES).map((issue) => ({
    field: issue.path.join('.') || '(whole)',
    message: issue.message,
  }));
  const named = errors.map(({ field, message }) => `${field}: ${message}`);
  return new Problem('invalid-request', named.join('; '), { errors });
}

/** Turns the zod schemas of a route into what OpenAPI wants. */
export const toOpenApi: SwaggerTransform = ({ schema, url }) => {
  const converted: Record<string, unknown> = {};
  for (const [part, value] of Object.entries(schema ?? {})) {
    if (part === 'response') converted[part] = convertAll(value as Record<string, unknown>);
    else converted[part] = value instanceof z.ZodType ? toJsonSchema(value) : value;
  }
  return { schema: converted, url };
};

function convertAll(responses: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(responses).map(([status, value]) => [
    status,
    value instanceof z.ZodType ? toJsonSchema(value) : value,
  ]);
  return Object.fromEntries(entries);
}

function toJsonSchema(schema: z.ZodType): unknown {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  });
  return rest;
}
