import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ROOT, runToEnd } from './child-process.ts';
import { PackedPackages } from './packed-packages.ts';
import { codeOfPage, START_PAGES } from './start-page.ts';

let packed: PackedPackages;
beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
});
afterAll(() => packed?.dispose());

/** A controller as a project of NestJS has it, on either adapter. */
const CONTROLLERS = `
import { Controller, Post, Req } from '@nestjs/common';
import type { Request } from 'express';
import type { FastifyRequest } from 'fastify';
import type { NestRequest } from 'onceward/nest';

@Controller('orders')
export class OrdersController {
  @Post('express')
  onExpress(@Req() request: Request & NestRequest) {
    return { key: request.idempotency?.key, host: request.hostname };
  }

  @Post('fastify')
  onFastify(@Req() request: FastifyRequest & NestRequest) {
    return { key: request.idempotency?.key, id: request.id };
  }
}
`;

async function compile(files: Readonly<Record<string, string>>, more: object): Promise<string> {
  const project = await packed.projectWithin(['onceward']);
  const compilerOptions = {
    strict: true,
    noEmit: true,
    module: 'nodenext',
    target: 'es2023',
    types: ['node'],
    skipLibCheck: false,
    ...more,
  };
  await writeFile(join(project, 'package.json'), '{ "type": "module" }');
  await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  for (const [name, code] of Object.entries(files)) await writeFile(join(project, name), code);
  const tsc = join(ROOT, 'node_modules/.bin/tsc');
  return (await runToEnd(process.execPath, [tsc, '-p', '.'], project)).stdout;
}

it('the code of every page to start with compiles against the packed library', async () => {
  const fences = START_PAGES.flatMap((page) => codeOfPage(page));
  const files = fences.map(({ document, line, code }) => [
    `${document.replaceAll('/', '-')}-${line}.ts`,
    `${code}\nexport {};\n`,
  ]);
  expect(await compile(Object.fromEntries(files), {})).toBe('');
});

it('a controller of NestJS finds request.idempotency by its type', async () => {
  const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true };
  expect(await compile({ 'orders.controller.ts': CONTROLLERS }, decorators)).toBe('');
});
