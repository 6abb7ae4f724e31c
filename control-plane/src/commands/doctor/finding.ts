// One line of `berth-server doctor`; the doctor of a server writes the same.
export {
  type Finding,
  ok,
  problem,
  reasonOf,
  skipped,
  warning,
} from '@berth/shared/findings'
