import { readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { type DockerPlan, flattenPlan } from '../plan/plan.ts'
import {
  archivedVolumes,
  commandServices,
  databasesWithoutCommand,
  planBackup,
  planRestore,
  usersOf,
} from './plan.ts'

function planOf(yaml: string): DockerPlan {
  const { file, problems } = readServiceFile(yaml)
  if (!file?.docker) throw new Error(JSON.stringify(problems))
  const section = file.docker
  return { format: 2, taskId: 1, commit: 'c', actions: [], section, services: [], routes: [] }
}

const BACKUP = 'backup: { command: pg_dump app, restore: pg_restore app }'
const WITH = planOf(`docker:
  services:
    web: { build: ., volumes: ['files:/srv'] }
    db: { image: 'postgres:18', volumes: ['pg:/data', 'shared:/shared'], ${BACKUP} }
    worker: { image: busybox, volumes: ['shared:/shared'] }
  volumes: [files, pg, shared, unused]
`)
const WITHOUT = planOf(`docker:
  services:
    db: { image: 'docker.io/library/postgres:18', volumes: ['pg:/data'] }
    cache: { image: 'redis' }
  volumes: [pg]
`)
const steps = (plan: Parameters<typeof planBackup>[0], asked = { isBucket: false, expired: 0 }) =>
  flattenPlan(planBackup(plan, asked)).map(({ id }) => id)

describe('a backup', () => {
  it('archives what a command does not cover, also volumes that others use too', () => {
    expect(archivedVolumes(WITH)).toEqual(['files', 'shared', 'unused'])
    expect(commandServices(WITH).map(({ name }) => name)).toEqual(['db'])
    expect([...usersOf(WITH, ['files', 'shared'])]).toEqual(['web', 'db', 'worker'])
    expect(steps(WITH)).toEqual(['prepare', 'command:db', 'archive', 'finish'])
  })

  it('uploads, and removes old ones after it is complete', () => {
    const asked = { isBucket: true, expired: 2 }
    expect(steps(WITHOUT, asked)).toEqual(['prepare', 'archive', 'store', 'finish', 'prune'])
    expect(steps(null)).toEqual(['prepare', 'finish'])
  })

  it('knows databases without a command, if they have a volume', () => {
    expect(databasesWithoutCommand(WITHOUT)).toEqual(['db'])
    expect(databasesWithoutCommand(WITH)).toEqual([])
  })

  it('a restore cannot be canceled once it replaces data', () => {
    expect(flattenPlan(planRestore()).map(({ id, phase }) => [id, phase])).toEqual([
      ['prepare', 'run'],
      ['stage', 'run'],
      ['replace', 'verify'],
    ])
  })
})
