import { expect, test } from 'vitest'
import { describeFault } from './faults.ts'

test('a folder of root names the account that needs it', () => {
  const refused = Object.assign(new Error('EACCES: permission denied'), {
    code: 'EACCES',
    path: '/backup/berth.tar.gz',
  })
  const uid = process.getuid
  try {
    process.getuid = () => 997
    expect(describeFault(refused)).toMatch(/may not use \/backup\/berth.tar.gz.*install -d -m 700/)
    process.getuid = () => 0
    expect(describeFault(refused)).toBe('EACCES: permission denied')
  } finally {
    process.getuid = uid as () => number
  }
  expect(describeFault(new Error('There is no backup.'))).toBe('There is no backup.')
  expect(describeFault('odd')).toBe('odd')
})
