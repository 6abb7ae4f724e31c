// package.json: which framework, which package manager, and the Dockerfile for them. PURE.
import type { App } from './app.ts'
import { firstOf, has, hasFolder, healthRoute, type Look, listenPort, textOf } from './look.ts'

interface Package {
  scripts: Readonly<Record<string, string>>
  /** Of both kinds. */
  depends: ReadonlySet<string>
  hasWorkspaces: boolean
  manager: string
  engine: string
  main: string
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const mapOf = (value: unknown): Record<string, unknown> => (isMap(value) ? value : {})
const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** null: missing or unreadable. */
function readPackage(text: string): Package | null {
  try {
    const parsed: unknown = JSON.parse(text)
    if (!isMap(parsed)) return null
    const scripts = Object.entries(mapOf(parsed.scripts)).filter(
      (one) => typeof one[1] === 'string',
    )
    const depends = [parsed.dependencies, parsed.devDependencies].flatMap((one) =>
      Object.keys(mapOf(one)),
    )
    return {
      scripts: Object.fromEntries(scripts) as Record<string, string>,
      depends: new Set(depends),
      hasWorkspaces: parsed.workspaces !== undefined,
      manager: wordOf(parsed.packageManager),
      engine: wordOf(mapOf(parsed.engines).node),
      main: wordOf(parsed.main),
    }
  } catch {
    return null
  }
}

/** Versions that have an image and still get fixes; the last is the default. */
const VERSIONS = ['20', '22', '24', '26', '24']

function nodeVersion(look: Look, engine: string): { version: string; named: boolean } {
  for (const text of [textOf(look, '.nvmrc'), textOf(look, '.node-version'), engine]) {
    const major = /(\d{2})/.exec(text)?.[1]
    if (major !== undefined && VERSIONS.includes(major)) return { version: major, named: true }
  }
  return { version: VERSIONS.at(-1) ?? '', named: false }
}

interface Manager {
  name: 'npm' | 'pnpm' | 'yarn' | 'bun'
  because: string
  /** The command that installs, in the image and on a server. */
  install: string
  cache: string
  /** Files that it reads before the sources are there. */
  files: string[]
  before: string[]
  /** Removes what only a build needs. */
  prune: string | null
}

function managerOf(look: Look, found: Package): Manager {
  const base = { files: has(look, '.npmrc') ? ['.npmrc'] : [], before: [] as string[] }
  const bun = firstOf(look, ['bun.lock', 'bun.lockb'])
  if (bun) {
    const files = [bun, ...base.files]
    const [install, cache] = ['bun install --frozen-lockfile', '/root/.bun/install/cache']
    return { ...base, name: 'bun', because: bun, install, cache, files, prune: null }
  }
  if (has(look, 'pnpm-lock.yaml')) {
    const major = /^pnpm@(\d{1,2})\./.exec(found.manager)?.[1] ?? '10'
    const workspace = has(look, 'pnpm-workspace.yaml') ? ['pnpm-workspace.yaml'] : []
    return {
      name: 'pnpm',
      because: 'pnpm-lock.yaml',
      install: 'pnpm install --frozen-lockfile',
      cache: '/root/.local/share/pnpm/store',
      files: ['pnpm-lock.yaml', ...workspace, ...base.files],
      before: [`RUN npm install --global pnpm@${major}`],
      prune: 'pnpm prune --prod',
    }
  }
  if (has(look, 'yarn.lock')) {
    const isBerry = has(look, '.yarnrc.yml') || /^yarn@[2-9]/.test(found.manager)
    const files = ['yarn.lock', ...(has(look, '.yarnrc.yml') ? ['.yarnrc.yml'] : []), ...base.files]
    const name = 'yarn'
    if (!isBerry) {
      const install = 'yarn install --frozen-lockfile'
      const prune = 'yarn install --production --frozen-lockfile --ignore-scripts'
      const cache = '/usr/local/share/.cache/yarn'
      return { ...base, name, because: 'yarn.lock', install, cache, files, prune }
    }
    return {
      name,
      because: 'yarn.lock of Yarn 2 or newer',
      install: 'yarn install --immutable',
      cache: '/root/.yarn/berry/cache',
      files,
      before: ['ENV YARN_NODE_LINKER=node-modules', 'RUN corepack enable'],
      prune: null,
    }
  }
  const hasLock = has(look, 'package-lock.json')
  return {
    ...base,
    name: 'npm',
    because: hasLock ? 'package-lock.json' : 'no lock file',
    install: hasLock ? 'npm ci' : 'npm install',
    cache: '/root/.npm',
    files: [...(hasLock ? ['package-lock.json'] : []), ...base.files],
    prune: 'npm prune --omit=dev',
  }
}

/** What it becomes: a server that runs, or a folder of files. */
interface Shape {
  title: string
  because: string
  builds: boolean
  /** Words of the command that serves; null: files. */
  start: string[] | null
  folder: string | null
  /** A program that itself finds its pages, so each path leads to index.html. */
  isOnePage?: true
  /** `/` answers without anything else. */
  answersRoot: boolean
  /** Needs only what a build made, or packages that are not for development. */
  prunes: boolean
  env?: Record<string, string>
  problem?: string
}

/** `node --flag file.js`, which needs no shell and no npm; anything else is run by npm. */
const PLAIN = /^node(?: --[a-z-]+(?:=[\w./-]+)?)*(?: [\w@./-]+)$/

function startWords(found: Package, script: string, manager: Manager): string[] {
  const text = found.scripts[script] ?? ''
  if (PLAIN.test(text) && manager.name !== 'bun') return text.split(' ')
  if (manager.name === 'bun') return ['bun', 'run', script]
  return script === 'start' ? ['npm', 'start'] : ['npm', 'run', script]
}

const DEV_SERVER =
  /^(?:vite|react-scripts start|gatsby develop|astro dev|ng serve|parcel|webpack|next dev|nuxt dev|serve )/

const SERVERS: readonly (readonly [string, string])[] = [
  ['express', 'Express'],
  ['fastify', 'Fastify'],
  ['koa', 'Koa'],
  ['hono', 'Hono'],
  ['@hapi/hapi', 'hapi'],
]

const ENTRIES = ['server', 'index', 'app', 'main'].flatMap((name) =>
  ['js', 'mjs', 'cjs'].map((ending) => `${name}.${ending}`),
)

const CONFIGS = ['js', 'mjs', 'cjs', 'ts', 'mts']
const configOf = (look: Look, name: string): string =>
  CONFIGS.map((ending) => textOf(look, `${name}.config.${ending}`)).join('\n')

function siteOf(title: string, because: string, folder: string): Shape {
  return { title, because, builds: true, start: null, folder, answersRoot: true, prunes: false }
}

/** null: nothing here that serves. */
function shapeOf(look: Look, found: Package, manager: Manager): Shape | null {
  const { scripts, depends } = found
  const builds = Object.hasOwn(scripts, 'build')
  const hasStart = Object.hasOwn(scripts, 'start') && !DEV_SERVER.test(scripts.start ?? '')
  const serves = (title: string, because: string, start: string[], more = {}): Shape => ({
    title,
    because,
    builds,
    start,
    folder: null,
    answersRoot: true,
    prunes: true,
    ...more,
  })
  const start = (): string[] => startWords(found, 'start', manager)
  const by = (name: string): string => `package.json depends on ${name}`
  if (depends.has('next')) {
    if (/output:\s*['"]export['"]/.test(configOf(look, 'next'))) {
      return siteOf('Next.js, exported', by('next'), 'out')
    }
    const own = ['node', 'node_modules/next/dist/bin/next', 'start']
    return serves('Next.js', by('next'), hasStart ? start() : own, {
      builds: true,
      env: { HOSTNAME: '0.0.0.0', NEXT_TELEMETRY_DISABLED: '1' },
    })
  }
  if (depends.has('nuxt')) {
    return serves('Nuxt', by('nuxt'), ['node', '.output/server/index.mjs'], { builds: true })
  }
  const remix = ['@remix-run/serve', '@react-router/serve', '@remix-run/node'].find((one) =>
    depends.has(one),
  )
  if (remix && hasStart) return serves('Remix', by(remix), start(), { builds: true })
  if (depends.has('@sveltejs/kit')) {
    if (depends.has('@sveltejs/adapter-static')) {
      return siteOf('SvelteKit, static', by('@sveltejs/adapter-static'), 'build')
    }
    const more = { builds: true }
    if (depends.has('@sveltejs/adapter-node')) {
      return serves('SvelteKit', by('@sveltejs/adapter-node'), ['node', 'build'], more)
    }
    return serves('SvelteKit', by('@sveltejs/kit'), ['node', 'build'], {
      ...more,
      problem:
        'SvelteKit builds no server without an adapter: install @sveltejs/adapter-node and name it in svelte.config.js.',
    })
  }
  if (depends.has('astro')) {
    if (!depends.has('@astrojs/node')) return siteOf('Astro', by('astro'), 'dist')
    const words = ['node', 'dist/server/entry.mjs']
    return serves('Astro', by('@astrojs/node'), words, { builds: true, env: { HOST: '0.0.0.0' } })
  }
  if (depends.has('@nestjs/core')) {
    const script = ['start:prod', 'start'].find((one) => Object.hasOwn(scripts, one))
    const words = script ? startWords(found, script, manager) : ['node', 'dist/main.js']
    return serves('NestJS', by('@nestjs/core'), words, {
      builds: true,
      answersRoot: false,
      prunes: script === 'start:prod',
    })
  }
  const server = SERVERS.find(([name]) => depends.has(name))
  if (hasStart) {
    const because = server ? by(server[0]) : 'package.json has a start script'
    const words = start()
    return serves(server?.[1] ?? 'Node.js', because, words, {
      answersRoot: false,
      prunes: words[0] === 'node',
    })
  }
  if (depends.has('gatsby')) return siteOf('Gatsby', by('gatsby'), 'public')
  if (depends.has('react-scripts')) {
    return { ...siteOf('Create React App', by('react-scripts'), 'build'), isOnePage: true }
  }
  if (depends.has('vite') && builds) {
    const folder = /outDir:\s*['"]([\w-]{1,40})['"]/.exec(configOf(look, 'vite'))?.[1] ?? 'dist'
    return { ...siteOf('Vite', by('vite'), folder), isOnePage: true }
  }
  const main = [found.main.replace(/^\.\//, ''), ...ENTRIES].find(
    (path) => /^[\w./-]{1,80}\.[cm]?js$/.test(path) && has(look, path),
  )
  if (server && main) {
    return serves(server[1], by(server[0]), ['node', main], { answersRoot: false })
  }
  return builds
    ? siteOf('a site that is built', 'package.json has a build script and no start script', 'dist')
    : null
}

const NGINX = [
  'server {',
  '  listen 8080;',
  '  root /usr/share/nginx/html;',
  '  gzip on;',
  '  gzip_types text/css text/javascript application/javascript application/json image/svg+xml;',
]

/** nginx as its own user; without a shell in the way of `$uri`. */
export function siteStage(folder: string, isOnePage: boolean, from: string | null): string[] {
  const last = isOnePage ? '/index.html' : '=404'
  const conf = [...NGINX, `  location / { try_files $uri $uri.html $uri/ ${last}; }`, '}']
  return [
    'FROM nginxinc/nginx-unprivileged:1-alpine',
    `RUN printf '%s\\n' ${conf.map((line) => `'${line}'`).join(' ')} > /etc/nginx/conf.d/default.conf`,
    `COPY ${from === null ? '' : `--from=${from} `}${folder} /usr/share/nginx/html`,
    'EXPOSE 8080',
  ]
}

const IGNORE = ['node_modules', '.next', '.nuxt', '.output', '.svelte-kit', 'coverage', '.turbo']

function dockerfileOf(
  look: Look,
  found: Package,
  manager: Manager,
  shape: Shape,
  port: number,
): string[] {
  const isBun = manager.name === 'bun'
  const base = isBun ? 'oven/bun:1' : `node:${nodeVersion(look, found.engine).version}-slim`
  const user = isBun ? 'bun' : 'node'
  const run = (script: string): string => `${manager.name} run ${script}`
  const isWhole = found.hasWorkspaces || has(look, 'pnpm-workspace.yaml')
  const early = [
    `COPY package.json ${[...manager.files].map((one) => `${one} `).join('')}./`,
    // its install script reads the schema
    ...(hasFolder(look, 'prisma') ? ['COPY prisma ./prisma'] : []),
  ]
  const build = [
    `FROM ${base} AS build`,
    'WORKDIR /app',
    'ENV CI=true',
    ...manager.before,
    ...(isWhole ? ['COPY . .'] : early),
    `RUN --mount=type=cache,target=${manager.cache} ${manager.install}`,
    ...(isWhole ? [] : ['COPY . .']),
    ...(shape.builds ? [`RUN ${run('build')}`] : []),
  ]
  if (shape.start === null) {
    return [...build, '', ...siteStage(`/app/${shape.folder}`, shape.isOnePage === true, 'build')]
  }
  const env = Object.entries({ NODE_ENV: 'production', PORT: String(port), ...shape.env })
  return [
    ...build,
    ...(shape.prunes && manager.prune !== null
      ? [`RUN --mount=type=cache,target=${manager.cache} ${manager.prune}`]
      : []),
    '',
    `FROM ${base}`,
    `ENV ${env.map(([key, value]) => `${key}=${value}`).join(' ')}`,
    'WORKDIR /app',
    `COPY --from=build --chown=${user}:${user} /app ./`,
    `USER ${user}`,
    `EXPOSE ${port}`,
    `CMD ${JSON.stringify(shape.start)}`,
  ]
}

/** Commands that make the packages ready, also where nothing says what is started; null: no package.json. */
export function nodeSteps(look: Look): string[] | null {
  const found = readPackage(textOf(look, 'package.json'))
  if (!found) return null
  const { name, install } = managerOf(look, found)
  return [install, ...(Object.hasOwn(found.scripts, 'build') ? [`${name} run build`] : [])]
}

export function nodeApp(look: Look): App | null {
  const found = readPackage(textOf(look, 'package.json'))
  if (!found) return null
  const manager = managerOf(look, found)
  const shape = shapeOf(look, found, manager)
  if (!shape) return null
  const sources = [...look.texts].flatMap(([path, text]) =>
    /^(?:src\/)?\w+\.(?:[cm]?js|ts)$/.test(path) ? [text] : [],
  )
  const listens = listenPort(sources)
  const isServer = shape.start !== null
  // frameworks read PORT themselves
  const fixed = isServer && !shape.answersRoot && !listens.reads ? listens.port : null
  const port = isServer ? (fixed ?? listens.port ?? 3000) : 8080
  const { version, named } = nodeVersion(look, found.engine)
  const steps = [manager.install, ...(shape.builds ? [`${manager.name} run build`] : [])]
  return {
    title: shape.title,
    reasons: [
      `Found ${shape.title}: ${shape.because}.`,
      `Packages are installed with ${manager.name} (${manager.because}).`,
      ...(isServer ? [] : [`Its build leaves files in ${shape.folder}, which are served.`]),
    ],
    port,
    health: healthRoute(sources) ?? (shape.answersRoot ? '/' : null),
    dockerfile: dockerfileOf(look, found, manager, shape, port),
    ignore: [...IGNORE, ...(shape.folder === null ? [] : [shape.folder])],
    manual: {
      ...(named && manager.name !== 'bun' ? { tools: { node: version } } : {}),
      steps,
      ...(shape.start === null
        ? { root: shape.folder ?? 'dist' }
        : { run: shape.start.join(' '), ...(fixed === null ? {} : { port: fixed }) }),
    },
    variables: [],
    ...(shape.problem === undefined ? {} : { problem: shape.problem }),
  }
}
