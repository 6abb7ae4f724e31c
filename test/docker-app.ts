// Repositories that the docker harnesses deploy: a Node application that shows every loss (fixtures/docker-app), and the
// smallest one there is, for what only counts deployments. Both carry their version in a file of the repository.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BUSYBOX_IMAGE, NODE_IMAGE } from './docker-images.ts'

export const APP_PORT = 8_080

export interface AppOptions {
  /** Ends what it has begun when it is told to stop. */
  graceful?: boolean
  /** Before it listens. */
  bootMs?: number
  /** Lines more of the service `web` in `.service.yml`. */
  more?: string[]
}

/** A commit of the Node application. */
export function nodeApp(version: string, options: AppOptions = {}): Record<string, string> {
  const env = `{ GRACEFUL: "${options.graceful === false ? 0 : 1}", BOOT: "${options.bootMs ?? 0}" }`
  return {
    '.service.yml': serviceFile(`env: ${env}`, 'health: /healthz', ...(options.more ?? [])),
    Dockerfile: `FROM ${NODE_IMAGE}\nWORKDIR /app\nCOPY server.js version ./\nCMD ["node", "server.js"]\n`,
    'server.js': readFileSync(join(import.meta.dirname, 'fixtures/docker-app/server.js'), 'utf8'),
    version: `${version}\n`,
  }
}

/** The same application as a process that Berth keeps running; `node` is one that every account can execute. */
export const manualApp =
  (node: string): typeof nodeApp =>
  (version, options = {}) => {
    const { 'server.js': server = '' } = nodeApp(version, options)
    const graceful = options.graceful === false ? 0 : 1
    const lines = [
      ...['port: auto', 'health: /healthz', 'cpus: 2', `run: exec ${node} server.js`],
      `env: { GRACEFUL: "${graceful}", BOOT: "${options.bootMs ?? 0}" }`,
    ]
    const file = ['manual:', "  deploy: ['true']", '  services:', '    web:']
      .concat(lines.map((line) => `      ${line}`))
      .concat('')
    return { '.service.yml': file.join('\n'), 'server.js': server, version: `${version}\n` }
  }

/** A commit of the small one: busybox serves files; /index.html holds the version, /instance another word at each start. */
export function smallApp(version: string, more: string[] = []): Record<string, string> {
  return {
    '.service.yml': serviceFile('health: /index.html', ...more),
    Dockerfile: [
      `FROM ${BUSYBOX_IMAGE}`,
      'WORKDIR /w',
      'COPY index.html .',
      'RUN echo built > built.txt',
      `CMD cat /proc/sys/kernel/random/uuid > instance; exec httpd -f -p ${APP_PORT} -h /w`,
      '',
    ].join('\n'),
    'index.html': `version ${version}\n`,
  }
}

const serviceFile = (...lines: string[]): string =>
  ['docker:', '  services:', '    web:', '      build: .', `      port: ${APP_PORT}`]
    .concat(lines.map((line) => `      ${line}`))
    .concat('')
    .join('\n')
