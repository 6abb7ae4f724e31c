import { readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { renderFile } from './config-init.ts'
import { exposedPort, guessServiceFile, type Look } from './repository-look.ts'

const look = (more: Partial<Look> = {}): Look => ({
  dockerfile: null,
  packageJson: null,
  hasComposer: false,
  hasArtisan: false,
  names: new Set(),
  staticFolder: null,
  ...more,
})
const scripts = (known: object) => JSON.stringify({ scripts: known })

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

describe('what it makes of a folder is valid and says why', () => {
  const cases: [string, Look, 'docker' | 'manual' | undefined, string, string[]][] = [
    [
      'a Dockerfile',
      look({ dockerfile: 'FROM x\nEXPOSE 8080', packageJson: scripts({ start: 'x' }) }),
      undefined,
      'docker',
      ['build: .', 'port: 8080\n'],
    ],
    ['one without a port', look({ dockerfile: 'FROM x' }), undefined, 'docker', ['port: 3000 #']],
    ['nothing', look(), undefined, 'docker', ['port: 3000 #']],
    [
      'package.json that starts and builds, with npm',
      look({
        packageJson: scripts({ start: 'x', build: 'y' }),
        names: new Set(['package-lock.json']),
      }),
      undefined,
      'manual',
      ['- npm ci\n', '- npm run build\n', 'port: auto', 'run: exec npm start\n'],
    ],
    [
      'pnpm',
      look({ packageJson: scripts({ start: 'x' }), names: new Set(['pnpm-lock.yaml']) }),
      undefined,
      'manual',
      ['- pnpm install --frozen-lockfile\n', 'run: exec pnpm run start\n'],
    ],
    [
      'package.json that only builds',
      look({ packageJson: scripts({ build: 'x' }), names: new Set(['yarn.lock']) }),
      undefined,
      'manual',
      ['- yarn install --frozen-lockfile\n', '- yarn run build\n', 'root: dist #'],
    ],
    [
      'Laravel',
      look({ hasComposer: true, hasArtisan: true }),
      undefined,
      'manual',
      ['artisan serve'],
    ],
    ['PHP', look({ hasComposer: true }), undefined, 'manual', ['exec php -S']],
    ['a static folder', look({ staticFolder: 'public' }), undefined, 'manual', ['root: public #']],
    ['package.json that is broken', look({ packageJson: '{' }), undefined, 'docker', ['build: .']],
    [
      'package.json, but docker is wanted',
      look({ packageJson: scripts({ start: 'x' }) }),
      'docker',
      'docker',
      ['build: .'],
    ],
    [
      'a Dockerfile, but manual is wanted',
      look({ dockerfile: '' }),
      'manual',
      'manual',
      ['deploy:'],
    ],
  ]
  it.each(cases)('%s', (_, seen, wanted, recipe, parts) => {
    const guess = guessServiceFile(seen, wanted)
    const text = renderFile(guess, 'https://deploy.example.com')
    const { file, problems } = readServiceFile(new TextEncoder().encode(text), '.service.yml')
    expect(problems, text).toEqual([])
    expect(file?.[recipe as 'docker'], text).toBeTruthy()
    expect(guess.recipe).toBe(recipe)
    expect(guess.reasons.length).toBeGreaterThan(0)
    for (const part of parts) expect(text).toContain(part)
  })

  it('a compose file alone means docker, and that it is not read is said', () => {
    const guess = guessServiceFile(look({ names: new Set(['compose.yaml']) }), undefined)
    expect(guess.recipe).toBe('docker')
    expect(guess.reasons.join(' ')).toContain('config init --from-compose')
  })
})
