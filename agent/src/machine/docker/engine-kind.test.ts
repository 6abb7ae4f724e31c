// Answers cut to what is read. Those of Docker 20.10 and Podman 4.3 are recorded from engines of Debian 12
// (`npm run chaos -- engines`); the others are written by hand after newer versions.
import { expect, test } from 'vitest'
import { kindOf, refuseEngine } from './engine-kind.ts'

const ENGINE = { Components: [{ Name: 'Engine' }, { Name: 'containerd' }, { Name: 'runc' }] }
const DEBIAN = { Components: [...ENGINE.Components, { Name: 'docker-init' }] }
const PODMAN = {
  Components: [{ Name: 'Podman Engine' }, { Name: 'Conmon' }, { Name: 'OCI Runtime (crun)' }],
}
const DEFAULT = 'name=seccomp,profile=default'
const SECURE = ['name=apparmor', 'name=seccomp,profile=builtin', 'name=cgroupns']

test.each([
  ['docker', DEBIAN, { SecurityOptions: [DEFAULT] }],
  ['rootless', DEBIAN, { SecurityOptions: [DEFAULT, 'name=rootless'] }],
  ['podman', PODMAN, { SecurityOptions: [DEFAULT] }],
  ['docker', ENGINE, { SecurityOptions: SECURE }],
  ['docker', ENGINE, { SecurityOptions: null }],
  ['rootless', ENGINE, { SecurityOptions: [...SECURE, 'name=rootless'] }],
  ['rootless', ENGINE, { SecurityOptions: ['name=rootless,key=value'] }],
  ['podman', { Components: [{ Name: 'Podman Engine' }, { Name: 'Conmon' }] }, {}],
  [
    'podman',
    { Components: [{ Name: 'Podman Engine' }] },
    { SecurityOptions: ['name=seccomp', 'name=rootless'] },
  ],
] as const)('%s', (kind, version, info) => {
  const components = [...(version.Components ?? [])]
  const options = 'SecurityOptions' in info ? info.SecurityOptions : undefined
  const security = options ? { SecurityOptions: [...options] } : {}
  expect(kindOf({ Components: components }, security)).toBe(kind)
})

test('a refusal names what is there', () => {
  expect(refuseEngine({ kind: 'docker', version: '28.5.1' })).toBeUndefined()
  expect(refuseEngine({ kind: 'docker', version: '20.10.24+dfsg1' })).toBeUndefined()
  expect(refuseEngine({ kind: 'docker', version: '19.03.15' })).toBe('its version is 19.03.15')
  expect(refuseEngine({ kind: 'podman', version: '4.3.1' })).toContain('Podman 4.3.1 answers')
  expect(refuseEngine({ kind: 'rootless', version: '28.5.1' })).toContain('runs rootless')
})
