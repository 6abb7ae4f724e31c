import { describe, expect, it } from 'vitest'
import { readServiceFile } from './index.ts'
import { readProcfile } from './procfile.ts'

describe('a Procfile', () => {
  it('has a name and a command on each line', () => {
    const text =
      '\ufeff# processes\r\nweb: node server.js --port $PORT\r\n\nHigh_queue:bundle exec sidekiq\nrelease: rake db:migrate'
    expect(readProcfile(text)).toEqual({
      commands: new Map([
        ['web', 'node server.js --port $PORT'],
        ['high-queue', 'bundle exec sidekiq'],
      ]),
      release: 'rake db:migrate',
      problems: [],
    })
  })

  it.each([
    ['web', "line 1 is not of the form 'name: command'"],
    ['\nweb:  ', "line 2 is not of the form 'name: command'"],
    ['9web: a', "line 1 has the name '9web'; begin it with a letter"],
    ['web: a\nWEB: b', "line 2 repeats the name 'web'"],
    ['release: a\nrelease: b\nweb: c', "line 2 repeats the name 'release'"],
    ['# nothing', 'has no process'],
  ])('%j: %s', (text, problem) => {
    expect(readProcfile(text).problems).toEqual([problem])
  })
})

const read = (manual: string, procfile: string | null | undefined) =>
  readServiceFile(`manual: { deploy: [x], procfile: Procfile${manual} }`, undefined, { procfile })

describe('a file with a Procfile', () => {
  it('has its lines as services; entries of the file add keys and win', () => {
    const services =
      ', services: { web: { health: /up, memory: 1g }, clock: { run: other }, extra: { port: 80 } }'
    const { file, problems } = read(services, 'web: serve\nclock: tick\nrelease: migrate')
    expect(problems).toEqual([])
    expect(file?.manual?.release).toBe('migrate')
    expect(
      file?.manual?.services.map(({ name, target, run, health }) => ({
        name,
        target: target?.kind,
        run: run?.command,
        memory: run?.memoryBytes,
        health: health.kind,
      })),
    ).toEqual([
      { name: 'web', target: 'auto', run: 'serve', memory: 1_024 ** 3, health: 'http' },
      { name: 'clock', target: undefined, run: 'other', memory: null, health: 'stays-up' },
      { name: 'extra', target: 'port', run: undefined, memory: undefined, health: 'connect' },
    ])
  })

  it('is not checked against lines that are not known', () => {
    expect(read(', services: { web: { health: /up } }', undefined).problems).toEqual([])
  })

  it.each([
    ['', null, 'manual.procfile names Procfile, which is not a file in the root of the repository'],
    ['', 'web', "Procfile line 1 is not of the form 'name: command'"],
    [
      ', services: { api: { auth: false } }',
      'web: a',
      "manual.services.api needs 'port', 'socket', 'root' or 'run', or a line 'api:' in Procfile",
    ],
    [
      ', services: { web: { root: public } }',
      'web: a',
      "Procfile has a command for web, which has 'root' in manual.services; remove one",
    ],
    [
      '',
      Array.from({ length: 21 }, (_, index) => `p${index}: x`).join('\n'),
      'Procfile makes 21 services; at most 20 are possible',
    ],
  ])('%s with %j: %s', (services, procfile, message) => {
    const { file, problems } = read(services, procfile)
    expect(file).toBeUndefined()
    expect(problems.map((problem) => problem.message)).toEqual([message])
  })
})
