export { buildApp } from './app.ts';
export { compose, type Program } from './compose.ts';
export { type Config, type ConfigInput, loadConfig } from './config/load-config.ts';
export { programLog } from './observability/program-log.ts';
