// Small repositories, and what is made of each: the recipe, the files, the reasons. Every file that is made is valid,
// and every Dockerfile keeps the rules of the page: stages, a user that is not root, caches, fixed versions.
import { readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import type { Draft } from './app.ts'
import { chooseDraft, detect } from './detect.ts'
import { exposedPort } from './dockerfile.ts'
import { isWanted, type Look } from './look.ts'

type Files = Record<string, string>

const lookAt = (files: Files): Look => ({
  paths: new Set(Object.keys(files)),
  texts: new Map(Object.entries(files).filter(([path]) => isWanted(path))),
})
const pkg = (more: object): string => JSON.stringify({ name: 'x', ...more })

interface Row {
  files: Files
  title: string
  /** Recipes that can run it, the better one first. */
  recipes: string
  service: string[]
  dockerfile?: string[]
  manual?: string[]
  reasons?: string
  variables?: string[]
}

const NEXT = pkg({
  dependencies: { next: '15' },
  scripts: { build: 'next build', start: 'next start' },
})
const MANAGE = `os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n`

const ROWS: Record<string, Row> = {
  'a Dockerfile beside package.json': {
    files: { Dockerfile: 'FROM x\nEXPOSE 8080', 'package.json': NEXT },
    title: 'Dockerfile',
    recipes: 'docker manual',
    service: ['build: .', 'port: 8080\n'],
  },
  'a Dockerfile without a port, and sources that have one': {
    files: { Dockerfile: 'FROM x', 'server.js': 'app.listen(4567)' },
    title: 'Dockerfile',
    recipes: 'docker',
    service: ['port: 4567\n'],
    reasons: 'The sources listen on port 4567',
  },
  'a compose file with several services goes before its Dockerfile': {
    files: {
      Dockerfile: 'FROM x\nEXPOSE 8080',
      'compose.yaml':
        'services:\n  web: { build: ., ports: ["80:8080"] }\n  redis: { image: "redis:7" }\n',
    },
    title: 'compose.yaml',
    recipes: 'docker',
    service: ['redis:', 'image: redis:7'],
    reasons: 'Dockerfile is built as one of its services',
  },
  'a compose file of one service beside a Dockerfile': {
    files: {
      Dockerfile: 'FROM x\nEXPOSE 8080',
      'docker-compose.yml': 'services:\n  web: { build: ., ports: ["80:8080"] }\n',
    },
    title: 'Dockerfile',
    recipes: 'docker',
    service: ['port: 8080\n'],
    reasons: 'docker-compose.yml is not read: berth config init --from-compose',
  },
  'a compose file that is broken': {
    files: { 'compose.yaml': 'services: 3\n', 'index.html': '' },
    title: 'a static site',
    recipes: 'manual docker',
    service: ['root: .'],
    reasons: 'compose.yaml cannot be converted',
  },
  'Procfile with Node.js': {
    files: {
      Procfile: 'web: node server.js\nworker: node worker.js\nrelease: node migrate.js\n',
      'package.json': pkg({ dependencies: { express: '5' }, scripts: { start: 'node server.js' } }),
      'package-lock.json': '{}',
    },
    title: 'Procfile',
    recipes: 'manual docker',
    service: ['procfile: Procfile', '- npm ci\n'],
    dockerfile: ['npm ci'],
  },
  'Procfile that alone says what starts': {
    files: { Procfile: 'web: node a.js\n', 'package.json': '{}', 'package-lock.json': '{}' },
    title: 'Procfile',
    recipes: 'manual',
    service: ['procfile: Procfile', '- npm ci\n'],
  },
  'Procfile alone': {
    files: { Procfile: 'web: ./serve\n' },
    title: 'Procfile',
    recipes: 'manual',
    service: ['procfile: Procfile', 'put your build here'],
  },
  'Next.js with npm': {
    files: { 'package.json': NEXT, 'package-lock.json': '{}' },
    title: 'Next.js',
    recipes: 'docker manual',
    service: ['port: 3000\n', 'health: /\n'],
    dockerfile: ['FROM node:24-slim AS build', 'npm ci', 'npm run build', 'CMD ["npm","start"]'],
    manual: ['- npm ci\n', '- npm run build\n', 'run: exec npm start\n'],
  },
  'Next.js that is exported': {
    files: {
      'package.json': NEXT,
      'next.config.mjs': "export default { output: 'export' }",
      'pnpm-lock.yaml': '',
      '.nvmrc': 'v22.3.0\n',
    },
    title: 'Next.js, exported',
    recipes: 'docker manual',
    service: ['port: 8080\n'],
    dockerfile: ['FROM node:22-slim AS build', 'pnpm install --frozen-lockfile', '/app/out'],
    manual: ['root: out', 'node: "22"'],
  },
  Nuxt: {
    files: {
      'package.json': pkg({ dependencies: { nuxt: '4' }, scripts: { build: 'nuxt build' } }),
    },
    title: 'Nuxt',
    recipes: 'docker manual',
    service: ['health: /\n'],
    dockerfile: ['CMD ["node",".output/server/index.mjs"]', 'npm install'],
  },
  Remix: {
    files: {
      'package.json': pkg({
        dependencies: { '@remix-run/serve': '2' },
        devDependencies: { vite: '6' },
        scripts: { build: 'remix vite:build', start: 'remix-serve ./build/server/index.js' },
      }),
      'yarn.lock': '',
    },
    title: 'Remix',
    recipes: 'docker manual',
    service: ['port: 3000\n'],
    dockerfile: ['yarn install --frozen-lockfile', 'yarn run build', 'CMD ["npm","start"]'],
  },
  'SvelteKit for Node.js': {
    files: {
      'package.json': pkg({
        devDependencies: { '@sveltejs/kit': '2', '@sveltejs/adapter-node': '5' },
        scripts: { build: 'vite build' },
      }),
    },
    title: 'SvelteKit',
    recipes: 'docker manual',
    service: ['port: 3000\n'],
    dockerfile: ['CMD ["node","build"]'],
  },
  'SvelteKit, static': {
    files: {
      'package.json': pkg({
        devDependencies: { '@sveltejs/kit': '2', '@sveltejs/adapter-static': '3' },
        scripts: { build: 'vite build' },
      }),
    },
    title: 'SvelteKit, static',
    recipes: 'docker manual',
    service: ['port: 8080\n'],
    dockerfile: ['/app/build'],
  },
  'Astro, static': {
    files: {
      'package.json': pkg({ dependencies: { astro: '5' }, scripts: { build: 'astro build' } }),
    },
    title: 'Astro',
    recipes: 'docker manual',
    service: ['health: /\n'],
    dockerfile: ['/app/dist', '=404'],
  },
  'Astro with a server': {
    files: {
      'package.json': pkg({
        dependencies: { astro: '5', '@astrojs/node': '9' },
        scripts: { build: 'astro build' },
      }),
    },
    title: 'Astro',
    recipes: 'docker manual',
    service: ['port: 3000\n'],
    dockerfile: ['CMD ["node","dist/server/entry.mjs"]', 'HOST=0.0.0.0'],
  },
  'Vite with a start script that is a development server': {
    files: {
      'package.json': pkg({
        devDependencies: { vite: '7' },
        scripts: { build: 'vite build', start: 'vite' },
      }),
      'vite.config.ts': "export default { build: { outDir: 'public-site' } }",
      'bun.lock': '',
    },
    title: 'Vite',
    recipes: 'docker manual',
    service: ['port: 8080\n'],
    dockerfile: ['FROM oven/bun:1 AS build', '/app/public-site', '/index.html'],
    manual: ['root: public-site'],
  },
  'Create React App': {
    files: {
      'package.json': pkg({
        dependencies: { 'react-scripts': '5' },
        scripts: { build: 'react-scripts build', start: 'react-scripts start' },
      }),
    },
    title: 'Create React App',
    recipes: 'docker manual',
    service: ['port: 8080\n'],
    dockerfile: ['/app/build', '/index.html'],
  },
  'Express that insists on a port': {
    files: {
      'package.json': pkg({ dependencies: { express: '5' }, scripts: { start: 'node server.js' } }),
      'package-lock.json': '{}',
      'server.js': "app.get('/healthz', ok)\napp.listen(4000)",
    },
    title: 'Express',
    recipes: 'docker manual',
    service: ['port: 4000\n', 'health: /healthz\n'],
    dockerfile: ['CMD ["node","server.js"]', 'npm prune --omit=dev', 'EXPOSE 4000'],
    manual: ['port: 4000\n', 'run: exec node server.js\n', 'health: /healthz\n'],
  },
  'Fastify that reads PORT': {
    files: {
      'package.json': pkg({
        dependencies: { fastify: '5' },
        scripts: { start: 'tsx src/server.ts' },
        engines: { node: '>=22' },
      }),
      'src/server.ts': 'app.listen({ port: Number(process.env.PORT ?? 5000) })',
      'package-lock.json': '{}',
    },
    title: 'Fastify',
    recipes: 'docker manual',
    service: ['port: 5000\n', '# health:'],
    // tsx is a package for development, so nothing is pruned
    dockerfile: ['FROM node:22-slim', 'CMD ["npm","start"]'],
    manual: ['port: auto', 'node: "22"'],
  },
  NestJS: {
    files: {
      'package.json': pkg({
        dependencies: { '@nestjs/core': '11' },
        scripts: { build: 'nest build', start: 'nest start', 'start:prod': 'node dist/main' },
      }),
      'package-lock.json': '{}',
    },
    title: 'NestJS',
    recipes: 'docker manual',
    service: ['port: 3000\n'],
    dockerfile: ['npm run build', 'npm prune', 'CMD ["node","dist/main"]'],
  },
  'plain Node.js': {
    files: {
      'package.json': pkg({ scripts: { start: 'node index.js' } }),
      'package-lock.json': '{}',
    },
    title: 'Node.js',
    recipes: 'docker manual',
    service: ['port: 3000\n'],
    manual: ['- npm ci\n', 'run: exec node index.js\n'],
  },
  'a workspace of pnpm': {
    files: {
      'package.json': pkg({ scripts: { start: 'node index.js' }, packageManager: 'pnpm@9.1.0' }),
      'pnpm-lock.yaml': '',
      'pnpm-workspace.yaml': '',
    },
    title: 'Node.js',
    recipes: 'docker manual',
    service: ['port: 3000\n'],
    dockerfile: ['pnpm@9\n', 'COPY . .\nRUN --mount=type=cache'],
  },
  'package.json that is for tools only, and a page': {
    files: { 'package.json': pkg({ devDependencies: { prettier: '3' } }), 'public/index.html': '' },
    title: 'a static site',
    recipes: 'manual docker',
    service: ['root: public #'],
  },
  'package.json that is broken': {
    files: { 'package.json': '{', 'index.html': '' },
    title: 'a static site',
    recipes: 'manual docker',
    service: ['root: . #'],
  },
  Django: {
    files: {
      'manage.py': MANAGE,
      'requirements.txt': 'Django==5.2\npsycopg2==2.9\ndj-database-url\n',
      'shop/settings.py': "DATABASES = { 'default': dj_database_url.config(env='DATABASE_URL') }\n",
      'package.json': pkg({ devDependencies: { vite: '6' }, scripts: { build: 'vite build' } }),
    },
    title: 'Django',
    recipes: 'docker manual',
    service: ['port: 8000\n', 'release: python manage.py migrate --noinput'],
    dockerfile: ['FROM python:3.13 AS build', 'libpq5', 'gunicorn', '"shop.wsgi"'],
    manual: ['- .venv/bin/python manage.py migrate', '--bind 127.0.0.1:"$PORT"'],
    reasons: 'Vite was found too',
  },
  'Django with a database in a file': {
    files: {
      'manage.py': MANAGE,
      'pyproject.toml': '[project]\ndependencies = ["django"]\n',
      'uv.lock': '',
      'shop/settings.py': "DATABASES = { 'default': { 'ENGINE': 'django.db.backends.sqlite3' } }\n",
      '.python-version': '3.12\n',
    },
    title: 'Django',
    recipes: 'docker manual',
    service: ['# release:'],
    dockerfile: ['FROM python:3.12-slim', 'uv sync --frozen'],
    manual: ['python: "3.12"'],
    reasons: 'Its database is a file in the checkout',
  },
  'Flask with a factory': {
    files: {
      'requirements.txt': 'flask\ngunicorn\n',
      'shop/__init__.py': 'from flask import Flask\ndef create_app():\n    app = Flask(__name__)\n',
    },
    title: 'Flask',
    recipes: 'docker manual',
    service: ['port: 8000\n'],
    dockerfile: ['"shop:create_app()"', 'pip install -r requirements.txt\n'],
    manual: [`'shop:create_app()'`],
  },
  'Flask with Pipenv': {
    files: {
      Pipfile: '[packages]\nflask = "*"\n[requires]\npython_version = "3.11"\n',
      'Pipfile.lock': '{}',
      'app.py': 'import flask\nserver = flask.Flask(__name__)\n@server.get("/health")\n',
    },
    title: 'Flask',
    recipes: 'docker manual',
    service: ['health: /health\n'],
    dockerfile: ['FROM python:3.11-slim', 'pipenv sync', '"app:server"'],
  },
  'FastAPI with Poetry': {
    files: {
      'pyproject.toml':
        '[project]\nrequires-python = ">=3.14"\ndependencies = ["fastapi[standard]"]\n',
      'poetry.lock': '',
      'app/main.py': 'from fastapi import FastAPI\napi: FastAPI = FastAPI()\n',
    },
    title: 'FastAPI',
    recipes: 'docker manual',
    service: ['port: 8000\n'],
    dockerfile: [
      'FROM python:3.14-slim',
      'poetry install --only main',
      '"app.main:api"',
      'uvicorn',
    ],
    manual: ['--host 127.0.0.1 --port "$PORT" app.main:api'],
  },
  'Go in the root': {
    files: {
      'go.mod': 'module x\n\ngo 1.24.1\n',
      'go.sum': '',
      'main.go': 'package main\n\nfunc main() { http.ListenAndServe(":9090", nil) }\n',
      'templates/index.html': '',
    },
    title: 'Go',
    recipes: 'docker manual',
    service: ['port: 9090\n'],
    dockerfile: ['FROM golang:1.24 AS build', '-o /out/app .', 'COPY --chown=app:app templates'],
    manual: ['port: 9090\n'],
  },
  'Go below cmd, with assets that are built': {
    files: {
      'go.mod': 'module x\n\ngo 1.23\n',
      'cmd/api/main.go':
        'package main\nfunc main() { p := os.Getenv("PORT"); mux.Handle("/healthz", h) }',
      'cmd/tool/main.go': 'package main\nfunc main() {}',
      'package.json': pkg({ devDependencies: { vite: '6' }, scripts: { build: 'vite build' } }),
    },
    title: 'Go',
    recipes: 'docker manual',
    service: ['port: 8080\n', 'health: /healthz\n'],
    dockerfile: ['./cmd/api'],
    manual: ['port: auto'],
    reasons: '1 more main packages',
  },
  'a Go library is nothing that runs': {
    files: { 'go.mod': 'module x\n\ngo 1.23\n', 'x.go': 'package x\n' },
    title: 'nothing that is known',
    recipes: 'docker manual',
    service: ['build: .'],
  },
  Laravel: {
    files: {
      artisan: '',
      'composer.json': '{"require":{"php":"^8.3"}}',
      'composer.lock': '',
      'public/index.php': '',
      'bootstrap/app.php': "health: '/up',",
      'package.json': pkg({ scripts: { build: 'vite build' } }),
    },
    title: 'Laravel',
    recipes: 'docker manual',
    service: ['health: /up\n', 'release: php artisan migrate --force'],
    dockerfile: ['FROM composer:2', 'FROM php:8.3-apache', 'npm run build', 'USER www-data'],
    variables: ['APP_KEY'],
  },
  PHP: {
    files: { 'composer.json': '{}', 'public/index.php': '' },
    title: 'PHP',
    recipes: 'docker manual',
    service: ['port: 8080\n'],
    manual: ['exec php -S'],
  },
  'Ruby on Rails': {
    files: {
      Gemfile: "gem 'rails', '~> 8.0'\ngem 'pg'\ngem 'propshaft'\n",
      'Gemfile.lock': '',
      'config/application.rb': '',
      'config/routes.rb': 'get "up" => "rails/health#show"',
      'config/credentials.yml.enc': '',
      '.ruby-version': 'ruby-3.3.5',
    },
    title: 'Ruby on Rails',
    recipes: 'docker manual',
    service: ['health: /up\n', 'release: bundle exec rails db:prepare'],
    dockerfile: ['FROM ruby:3.3-slim', 'libpq5', 'assets:precompile'],
    variables: ['SECRET_KEY_BASE', 'RAILS_MASTER_KEY'],
  },
  'a static site in the root': {
    files: { 'index.html': '' },
    title: 'a static site',
    recipes: 'manual docker',
    service: ['root: . #'],
    dockerfile: ['FROM nginxinc/nginx-unprivileged:1-alpine'],
  },
  nothing: {
    files: { 'README.md': '' },
    title: 'nothing that is known',
    recipes: 'docker manual',
    service: ['port: 3000 #'],
  },
}

const rendered = (draft: Draft): string => `version: 1\n${draft.lines.join('\n')}\n`
const textOf = (draft: Draft | undefined, path: string): string =>
  draft?.files.find((file) => file.path === path)?.text ?? ''

describe.each(Object.entries(ROWS))('%s', (_, row) => {
  const detection = detect(lookAt(row.files))
  const of = (recipe: string) => detection.drafts.find((draft) => draft.recipe === recipe)

  it('is recognised, with reasons', () => {
    expect(detection.title).toBe(row.title)
    expect(detection.drafts.map(({ recipe }) => recipe).join(' ')).toBe(row.recipes)
    const [best] = detection.drafts
    expect(best?.reasons.length).toBeGreaterThan(0)
    const said = [...(best?.reasons ?? []), ...detection.also].join(' ')
    if (row.reasons) expect(said).toContain(row.reasons)
    for (const part of row.service) expect(rendered(best as Draft)).toContain(part)
    for (const part of row.manual ?? []) expect(rendered(of('manual') as Draft)).toContain(part)
    expect(best?.variables.map(({ key }) => key)).toEqual(row.variables ?? [])
  })

  it('has files that are valid', () => {
    for (const draft of detection.drafts) {
      const beside = row.files.Procfile === undefined ? {} : { procfile: row.files.Procfile }
      const { file, problems } = readServiceFile(rendered(draft), '.service.yml', beside as object)
      expect(problems, rendered(draft)).toEqual([])
      expect(file?.[draft.recipe]).toBeTruthy()
    }
  })

  it('has a Dockerfile that keeps the rules', () => {
    const docker = of('docker')
    const text = textOf(docker, 'Dockerfile')
    for (const part of row.dockerfile ?? []) expect(text).toContain(part)
    if (text === '') return
    const froms = [...text.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image ?? '')
    const last = text.slice(text.lastIndexOf('\nFROM') + 1)
    const isRootless = /^USER (?!root)/m.test(last) || last.includes('unprivileged')
    expect(isRootless, text).toBe(true)
    for (const image of froms) expect(image, text).toMatch(/:\d/)
    if (
      /\b(?:npm|pnpm|yarn|bun|pip|uv|poetry|pipenv|composer|bundle) (?:ci|install|sync)\b/.test(
        text,
      )
    ) {
      expect(text).toContain('--mount=type=cache')
      expect(froms.length).toBeGreaterThan(1)
    }
    expect(exposedPort(text)).toBe(Number(/port: (\d+)/.exec(docker?.lines.join('\n') ?? '')?.[1]))
    expect(textOf(docker, '.dockerignore')).toContain('.env\n')
  })
})

describe('which recipe', () => {
  const express = detect(lookAt(ROWS['Express that insists on a port']?.files ?? {}))
  const site = detect(lookAt({ 'index.html': '' }))
  const stack = detect(
    lookAt({ 'compose.yaml': 'services: { web: { image: a }, db: { image: postgres } }' }),
  )
  it.each([
    ['the better one, if no server is known', express, undefined, undefined, 'docker'],
    ['the wanted one', express, 'manual', undefined, 'manual'],
    ['manual, on a server without an engine', express, undefined, ['manual'], 'manual'],
    ['docker, on a server that runs nothing else', site, undefined, ['docker'], 'docker'],
    ['none: several services need containers', stack, undefined, ['manual'], null],
  ] as const)('%s', (_, detection, wanted, supported, recipe) => {
    const choice = chooseDraft(detection, wanted, supported)
    expect('draft' in choice ? choice.draft.recipe : null).toBe(recipe)
    if ('missing' in choice) expect(choice.missing).toContain('needs the docker recipe')
  })

  it('an existing .dockerignore stays', () => {
    const files = { 'package.json': NEXT, '.dockerignore': 'x' }
    const [docker] = detect(lookAt(files)).drafts
    expect(docker?.files.map(({ path }) => path)).toEqual(['Dockerfile'])
  })

  it('SvelteKit without an adapter says what to install', () => {
    const files = { 'package.json': pkg({ devDependencies: { '@sveltejs/kit': '2' } }) }
    expect(detect(lookAt(files)).drafts[0]?.problem).toContain('install @sveltejs/adapter-node')
  })
})

describe('text of the repository gets into no file as it is', () => {
  const hostile = 'x"; rm -rf / #\n- evil'
  it.each<[string, Files]>([
    ['a start script', { 'package.json': pkg({ scripts: { start: `node ${hostile}` } }) }],
    ['a main file', { 'package.json': pkg({ main: hostile, dependencies: { express: '5' } }) }],
    [
      'a settings module',
      { 'requirements.txt': 'django', 'manage.py': MANAGE.replace('shop.settings', hostile) },
    ],
    [
      'a folder of vite',
      {
        'package.json': pkg({ devDependencies: { vite: '6' }, scripts: { build: 'x' } }),
        'vite.config.js': `outDir: '${hostile}'`,
      },
    ],
    ['a version', { 'package.json': NEXT, '.nvmrc': hostile }],
  ])('%s', (_, files) => {
    for (const draft of detect(lookAt(files)).drafts) {
      const all = [rendered(draft), ...draft.files.map(({ text }) => text)].join('\n')
      expect(all).not.toContain('rm -rf')
      expect(all).not.toContain('- evil')
    }
  })

  it('a command of a Procfile stays one text', () => {
    const files = {
      Procfile: `web: node a.js # "x": y\n`,
      'package.json': pkg({ scripts: { start: 'node a.js' } }),
    }
    const docker = detect(lookAt(files)).drafts.find(({ recipe }) => recipe === 'docker') as Draft
    const { file, problems } = readServiceFile(rendered(docker))
    expect(problems).toEqual([])
    expect(file?.docker?.services).toMatchObject([{ name: 'web', command: 'node a.js # "x": y' }])
  })
})

describe('the port of a Dockerfile', () => {
  it.each([
    ['EXPOSE 8080', 8080],
    ['FROM a\nEXPOSE 1\nFROM b\nEXPOSE 80/tcp 443', 80],
    ['FROM a\nEXPOSE 1\nFROM b', null],
    ['EXPOSE 53/udp 8080', 8080],
    ['expose \\\n  9000', 9000],
    ['ARG PORT=4000\nEXPOSE $PORT', 4000],
    [`ENV PORT 4001\nEXPOSE \${PORT}`, 4001],
    [`ENV A=1 PORT="4002"\nEXPOSE \${PORT}`, 4002],
    [`EXPOSE \${PORT:-4003}`, 4003],
    ['EXPOSE $UNKNOWN', null],
    ['EXPOSE 7000-7005', 7000],
    ['EXPOSE 70000', null],
    ['# EXPOSE 1\nRUN echo EXPOSE 2', null],
    ['', null],
  ])('%j', (text, port) => {
    expect(exposedPort(text)).toBe(port)
  })
})
