import { fileURLToPath } from 'node:url';

const workspace = fileURLToPath(new URL('../../../..', import.meta.url));

/** The library is bundled from source, as the other tests run it. */
export default {
  distDir: 'dist',
  outputFileTracingRoot: workspace,
  transpilePackages: ['onceward'],
  webpack(config) {
    config.resolve.conditionNames = ['onceward-source', '...'];
    return config;
  },
};
