import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Duplex } from 'node:stream';
import { Problem } from '../api/problem.ts';
import { writeRaw, writeRawAnswer } from '../api/raw-refusals.ts';
import type { Settings } from '../config/settings.ts';
import type { Metrics, UpstreamFault } from '../observability/metrics.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, requestHeaders } from './forwarded-headers.ts';

type UpgradeSettings = Pick<Settings, 'maxUpgrades' | 'upgradeTimeoutSeconds' | 'profile'>;

/** A request that has been admitted, and the connection that it would like to keep. */
export interface UpgradeRequest {
  readonly request: IncomingMessage;
  /** Path and query. */
  readonly target: string;
  readonly client: Duplex;
  /** What the client has sent beyond the request. */
  readonly head: Buffer;
}

/** Carries WebSockets, and whatever else is asked for with `Upgrade`, between clients and the upstream. */
export class Upgrades {
  readonly #url: URL;
  readonly #prefix: string;
  readonly #metrics: Metrics;
  readonly #settings: UpgradeSettings;
  #open = 0;

  constructor(url: URL, metrics: Metrics, settings: UpgradeSettings) {
    this.#url = url;
    this.#prefix = url.pathname.replace(/\/$/, '');
    this.#metrics = metrics;
    this.#settings = settings;
  }

  get open(): number {
    return this.#open;
  }

  forward(upgrade: UpgradeRequest): void {
    const { client } = upgrade;
    if (client.destroyed) return;
    if (this.#open >= this.#settings.maxUpgrades) {
      const detail = 'as many upgraded connections are open as ONCEWARD_MAX_UPGRADES allows';
      writeRaw(client, new Problem('busy', detail));
      return;
    }
    this.#open += 1;
    client.once('close', () => {
      this.#open -= 1;
    });
    this.#ask(upgrade);
  }

  #ask(upgrade: UpgradeRequest): void {
    const { client } = upgrade;
    const asked = this.#request(upgrade);
    /** Whose head has gone out: a second one would land in the middle of what follows the first. */
    let answeredBy: 'nobody' | 'upstream' | 'us' = 'nobody';
    const fail = (fault: UpstreamFault) => {
      if (answeredBy === 'us' || client.destroyed) return;
      this.#metrics.countUpstreamFault(fault);
      if (answeredBy === 'upstream') {
        client.destroy();
        return;
      }
      answeredBy = 'us';
      writeRawAnswer(client, faultAnswer(fault, false, this.#settings.profile));
    };
    const limit = setTimeout(() => {
      fail('timeout');
      asked.destroy();
    }, this.#settings.upgradeTimeoutSeconds * 1_000);
    client.once('close', () => {
      clearTimeout(limit);
      asked.destroy();
    });
    asked.once('upgrade', (answer, server, serverHead) => {
      clearTimeout(limit);
      if (answeredBy !== 'nobody' || client.destroyed) {
        server.destroy();
        return;
      }
      answeredBy = 'upstream';
      const agreed = ['connection', 'Upgrade', 'upgrade', answer.headers.upgrade ?? ''];
      client.write(headOf(answer, [...answerHeaders(answer.rawHeaders), ...agreed]));
      if (serverHead.length > 0) client.write(serverHead);
      if (upgrade.head.length > 0) server.write(upgrade.head);
      join(client, server);
    });
    asked.once('response', (answer) => {
      clearTimeout(limit);
      if (answeredBy !== 'nobody' || client.destroyed) return;
      answeredBy = 'upstream';
      // It did not agree. What it says instead ends with the connection, so no length is needed.
      client.write(headOf(answer, [...answerHeaders(answer.rawHeaders), 'connection', 'close']));
      answer.on('error', () => client.destroy()).pipe(client);
      // Nothing that the client sends now is wanted; unread, it would hold the connection open.
      client.resume();
    });
    asked.on('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(limit);
      fail(error.syscall === 'connect' ? 'refused' : 'reset');
    });
    asked.end();
  }

  /** To the configured upstream, whatever the request says: only its path and query are taken from it. */
  #request({ request, target }: UpgradeRequest): ClientRequest {
    const { protocol, hostname, port, host } = this.#url;
    const send = protocol === 'https:' ? httpsRequest : httpRequest;
    const offer = ['connection', 'Upgrade', 'upgrade', request.headers.upgrade ?? ''];
    return send({
      protocol,
      hostname: hostname.replace(/^\[(.*)\]$/, '$1'),
      port,
      path: this.#prefix + target,
      method: 'GET',
      headers: ['host', host, ...requestHeaders(request, null), ...offer],
      agent: false,
    });
  }
}

function join(client: Duplex, server: Duplex): void {
  server.on('error', () => client.destroy());
  // What the server has sent is still to reach a client that reads slowly: the pipe ends the connection after it.
  server.once('close', () => client.end());
  client.once('close', () => server.destroy());
  server.pipe(client);
  client.pipe(server);
}

function headOf(answer: IncomingMessage, headers: readonly string[]): string {
  let head = `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage ?? ''}\r\n`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${head}\r\n`;
}
