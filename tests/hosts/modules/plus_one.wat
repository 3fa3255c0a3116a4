;; An honest model, small enough to read: four float32 weights, and training adds 1 to each of them.
;;
;; A unit is one byte of data or one experience unit; metrics are constants. It reads its requests by counting runs
;; of digits, which is all that the ABI's fixed key order asks of it.
(module
  (import "weei" "onProgress" (func $on_progress (param i32 i32)))
  (memory (export "memory") 2 64)

  (data (i32.const 1024) "{\"id\":\"plus-one\",\"version\":\"1.0.0\",\"name\":\"Plus one\",\"abiVersion\":1,\"weightFormat\":\"float32-le\",\"maxWorkers\":1,\"dataFormats\":[{\"id\":\"bytes\",\"label\":\"Bytes\",\"acceptedMimeTypes\":[\"application/octet-stream\"]}],\"metrics\":[{\"id\":\"loss\",\"label\":\"Loss\",\"direction\":\"minimize\"}],\"capabilities\":{\"evaluation\":true,\"inspection\":true,\"inference\":true,\"recordRanges\":true}}")
  (global $info_bytes i32 (i32.const 361))
  (data (i32.const 2048) "{}")
  (data (i32.const 2064) "{\"weights\":{\"pointer\":")
  (data (i32.const 2112) "},\"metrics\":{\"loss\":0.5},\"examplesProcessed\":")
  (data (i32.const 2192) ",\"uniqueExamples\":")
  (data (i32.const 2224) "{\"metrics\":{\"loss\":0.25},\"examplesProcessed\":")
  (data (i32.const 2288) "{\"exampleCount\":")
  (data (i32.const 2320) "{\"processedExamples\":")
  (data (i32.const 2352) ",\"totalExamples\":")
  (data (i32.const 2384) "{\"pointer\":")
  (data (i32.const 2400) ",\"bytes\":")
  (data (i32.const 2416) "{\"output\":{\"text\":\"one more\"}}")
  (data (i32.const 2464) "{\"error\":\"weights must be 16 bytes\"}")

  (global $top (mut i32) (i32.const 8192))     ;; everything below is in use
  (global $written (mut i32) (i32.const 0))    ;; bytes of the result at 4096
  (global $weights (mut i32) (i32.const 0))    ;; address of the loaded weights
  (global $weights_bytes i32 (i32.const 16))

  ;; A stack: memory grows when it must, and freeing the newest buffer gives it back.
  (func $alloc (export "alloc") (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $top))
    (global.set $top
      (i32.and (i32.add (i32.add (global.get $top) (local.get $bytes)) (i32.const 15)) (i32.const -16)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
      (br_if $enough (i32.ne (i32.const -1) (memory.grow (i32.add (i32.const 1) (i32.div_u
        (i32.sub (global.get $top) (i32.mul (memory.size) (i32.const 65536))) (i32.const 65536))))))
      (global.set $top (local.get $at))
      (return (i32.const 0)))
    (local.get $at))
  (func (export "free") (param $at i32) (param $bytes i32)
    (if (i32.eq (global.get $top)
        (i32.and (i32.add (i32.add (local.get $at) (local.get $bytes)) (i32.const 15)) (i32.const -16)))
      (then (global.set $top (local.get $at)))))
  (func (export "resultLength") (result i32) (global.get $written))

  ;; The value of the n-th run of digits in the text at $at.
  (func $number (param $at i32) (param $n i32) (result i32)
    (local $byte i32) (local $value i32)
    (loop $skip
      (loop $to_digit
        (local.set $byte (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $to_digit (i32.gt_u (i32.sub (local.get $byte) (i32.const 48)) (i32.const 9))))
      (local.set $value (i32.const 0))
      (loop $digits
        (local.set $value
          (i32.add (i32.mul (local.get $value) (i32.const 10)) (i32.sub (local.get $byte) (i32.const 48))))
        (local.set $byte (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $digits (i32.le_u (i32.sub (local.get $byte) (i32.const 48)) (i32.const 9))))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $skip (i32.ge_s (local.get $n) (i32.const 0))))
    (local.get $value))

  (func $begin (global.set $written (i32.const 0)))
  (func $text (param $from i32) (param $bytes i32)
    (memory.copy (i32.add (i32.const 4096) (global.get $written)) (local.get $from) (local.get $bytes))
    (global.set $written (i32.add (global.get $written) (local.get $bytes))))
  (func $decimal (param $value i32)
    (if (i32.ge_u (local.get $value) (i32.const 10))
      (then (call $decimal (i32.div_u (local.get $value) (i32.const 10)))))
    (i32.store8 (i32.add (i32.const 4096) (global.get $written))
      (i32.add (i32.const 48) (i32.rem_u (local.get $value) (i32.const 10))))
    (global.set $written (i32.add (global.get $written) (i32.const 1))))
  (func $close (result i32)
    (i32.store8 (i32.add (i32.const 4096) (global.get $written)) (i32.const 125))
    (global.set $written (i32.add (global.get $written) (i32.const 1)))
    (i32.const 4096))
  (func $empty (result i32) (call $begin) (call $text (i32.const 2048) (i32.const 2)) (i32.const 4096))
  (func $refuse (result i32) (call $begin) (call $text (i32.const 2464) (i32.const 36)) (i32.const 4096))

  (func (export "getModelInfo") (param $at i32) (param $bytes i32) (result i32)
    (global.set $written (global.get $info_bytes))
    (i32.const 1024))

  ;; [1, -2, 0.5, the last digit of the seed]
  (func (export "createInitialWeights") (param $at i32) (param $bytes i32) (result i32)
    (local $new i32)
    (local.set $new (call $alloc (global.get $weights_bytes)))
    (f32.store (local.get $new) (f32.const 1))
    (f32.store offset=4 (local.get $new) (f32.const -2))
    (f32.store offset=8 (local.get $new) (f32.const 0.5))
    (f32.store offset=12 (local.get $new) (f32.convert_i32_u (i32.sub
      (i32.load8_u (i32.add (local.get $at) (i32.sub (local.get $bytes) (i32.const 3)))) (i32.const 48))))
    (call $begin)
    (call $text (i32.const 2384) (i32.const 11))
    (call $decimal (local.get $new))
    (call $text (i32.const 2400) (i32.const 9))
    (call $decimal (global.get $weights_bytes))
    (call $close))

  (func (export "loadModel") (param $at i32) (param $bytes i32) (result i32)
    (if (i32.ne (call $number (local.get $at) (i32.const 1)) (global.get $weights_bytes))
      (then (return (call $refuse))))
    (global.set $weights (call $number (local.get $at) (i32.const 0)))
    (call $empty))
  (func (export "loadAuxiliary") (param $at i32) (param $bytes i32) (result i32) (call $empty))

  ;; Units of a request: bytes of {"data":{"pointer":…,"bytes":…, or unitCount of {"experience":{"seed":…,….
  (func $units (param $at i32) (result i32)
    (call $number (local.get $at)
      (select (i32.const 1) (i32.const 2) (i32.eq (i32.load8_u offset=2 (local.get $at)) (i32.const 100)))))
  (func $report (param $units i32)
    (call $begin)
    (call $text (i32.const 2320) (i32.const 21))
    (call $decimal (local.get $units))
    (call $text (i32.const 2352) (i32.const 17))
    (call $decimal (local.get $units))
    (drop (call $close))
    (call $on_progress (i32.const 4096) (global.get $written)))

  (func (export "train") (param $at i32) (param $bytes i32) (result i32)
    (local $units i32) (local $new i32) (local $i i32)
    (local.set $units (call $units (local.get $at)))
    (local.set $new (call $alloc (global.get $weights_bytes)))
    (if (i32.eqz (local.get $new)) (then (return (call $refuse))))
    (loop $each
      (f32.store (i32.add (local.get $new) (local.get $i))
        (f32.add (f32.const 1) (f32.load (i32.add (global.get $weights) (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 4)))
      (br_if $each (i32.lt_u (local.get $i) (global.get $weights_bytes))))
    (call $report (local.get $units))
    (call $begin)
    (call $text (i32.const 2064) (i32.const 22))
    (call $decimal (local.get $new))
    (call $text (i32.const 2400) (i32.const 9))
    (call $decimal (global.get $weights_bytes))
    (call $text (i32.const 2112) (i32.const 45))
    (call $decimal (local.get $units))
    (call $text (i32.const 2192) (i32.const 18))
    (call $decimal (local.get $units))
    (call $close))
  (func (export "evaluate") (param $at i32) (param $bytes i32) (result i32)
    (call $begin)
    (call $text (i32.const 2224) (i32.const 45))
    (call $decimal (call $units (local.get $at)))
    (call $close))
  (func (export "inspectData") (param $at i32) (param $bytes i32) (result i32)
    (call $begin)
    (call $text (i32.const 2288) (i32.const 16))
    (call $decimal (call $number (local.get $at) (i32.const 1)))
    (call $close))
  (func (export "predict") (param $at i32) (param $bytes i32) (result i32)
    (call $begin)
    (call $text (i32.const 2416) (i32.const 30))
    (i32.const 4096)))
