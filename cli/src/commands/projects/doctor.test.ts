// What the check of a project reports about SSH and about a forge whose host key changed.
import { expect, it } from 'vitest'
import { projectDetail, server } from '../../testing/samples.ts'
import { checkRepository, checkSshPort, sshPortOf } from './doctor.ts'

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
