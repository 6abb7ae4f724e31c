// What the check of a project reports about SSH and about a forge whose host key changed.
import { expect, it } from 'vitest'
import { projectDetail, server } from '../../testing/samples.ts'
import { repositoryCheck } from '../../testing/samples-people.ts'
import { checkRecipe, checkRepository, checkSshPort, sshPortOf } from './doctor.ts'

it('looks at the port that the agent set up, unless the server does not say', () => {
  const own = server({ ssh: { state: 'ready', port: 2222, reason: 'Open that port.' } })
  expect(sshPortOf(own)).toBe(2222)
  expect(checkSshPort(own, null)).toMatchObject({
    ok: true,
    text: 'fra-1.example.com:2222 answers',
  })
  expect(checkSshPort(own, 'timeout')).toMatchObject({
    ok: false,
    text: 'fra-1.example.com:2222 is not reachable from here (timeout)',
  })
  expect(sshPortOf(server({ ssh: null }))).toBe(22)
})

it('says why SSH is off instead of naming a port where nothing listens', () => {
  const off = server({ ssh: { state: 'off', port: 22, reason: 'SSH is switched off.' } })
  expect(checkSshPort(off, null)).toMatchObject({ ok: false, text: 'SSH is switched off.' })
})

it('a changed host key has its own remedy', () => {
  const found = {
    reachable: false,
    default_branch: null,
    branch_count: null,
    service_file: null,
    error: { code: 'host_key_changed', message: 'It changed.' },
  }
  expect(checkRepository(found, projectDetail()).remedy).toBe('berth project trust-host-key shop')
})

const has = (...recipes: ('docker' | 'manual')[]) =>
  repositoryCheck({ service_file: { found: true, recipes, errors: [] } })
const part = { name: 'docker', version: null, reason: 'No Docker engine was found.' }
const bare = server({ recipes: ['manual'], parts: [part] })

it.each([
  ['all fit', has('docker', 'manual'), [server()], true, 'docker, which .service.yml has', null],
  ['no file yet', null, [server()], true, 'docker, and fra-1 can run it', null],
  ['a server that has not told', has('docker'), [server({ recipes: [] })], true, 'docker', null],
  [
    'the file has the other section',
    has('manual'),
    [server()],
    false,
    "the project uses the docker recipe, and .service.yml has only 'manual:'",
    'berth project edit shop --recipe manual',
  ],
  [
    'the file has both, the server runs the other',
    has('docker', 'manual'),
    [bare],
    false,
    'fra-1 cannot run the docker recipe: No Docker engine was found.',
    'berth project edit shop --recipe manual, or install Docker on fra-1',
  ],
  [
    'only containers, and no engine',
    has('docker'),
    [server(), bare],
    false,
    'fra-1 cannot run the docker recipe',
    'install Docker on fra-1, or choose another server: berth project edit shop --server SERVER',
  ],
  [
    'nothing is written yet, and no engine',
    null,
    [bare],
    false,
    'fra-1 cannot run the docker recipe',
    'berth config init --recipe manual --force, then berth project edit shop --recipe manual',
  ],
] as const)('recipe, file and engine: %s', (_, found, servers, ok, text, remedy) => {
  const project = projectDetail({ default_recipe: 'docker' })
  const check = checkRecipe(found, project, servers)
  expect([check.ok, check.text]).toEqual([ok, expect.stringContaining(text)])
  if (remedy === null) expect(check.remedy).toBeNull()
  else expect(check.remedy).toContain(remedy)
})
