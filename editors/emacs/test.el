;;; test.el --- Run by .ci/editors  -*- lexical-binding: t; -*-

;; emacs --no-init-file --batch -L editors/emacs -l editors/emacs/test.el FILE
;; Opens a real file: what is highlighted, how lines are indented, and, where eglot is there and the
;; environment names a server (RELAX_LSP), whether they talk to each other.

(require 'cl-lib)
(require 'ert)
(require 'relay-mode)
(require 'package)
(package-initialize)

(defvar test-file (expand-file-name (car command-line-args-left)))
(setq command-line-args-left nil)

(defun test-face (pattern)
  "The face where PATTERN is found first."
  (goto-char (point-min))
  (re-search-forward pattern)
  (get-text-property (match-beginning 0) 'face))

(defmacro test-with-file (&rest body)
  `(with-current-buffer (find-file-noselect test-file)
     (font-lock-ensure)
     (unwind-protect (progn ,@body)
       (set-buffer-modified-p nil))))

(ert-deftest relay-highlighting ()
  (test-with-file
   (should (eq major-mode 'relay-mode))
   (dolist (case '(("\\_<def\\_>" . font-lock-keyword-face)
                   ("@main" . font-lock-function-name-face)
                   ("%data" . font-lock-variable-name-face)
                   ("nn\\.dense" . font-lock-builtin-face)
                   ("\\_<Tensor\\_>" . font-lock-type-face)
                   ("#\\[version" . font-lock-preprocessor-face)))
     (should (equal (cons (car case) (test-face (car case))) case)))
   (should (memq (test-face "^//")
                 '(font-lock-comment-face font-lock-comment-delimiter-face)))))

(ert-deftest relay-indentation ()
  (with-temp-buffer
    (relay-mode)
    (insert "def @f() {\nlet %x = add(\n1,\n2\n);\n%x\n}\n")
    (indent-region (point-min) (point-max))
    (should (equal (buffer-string)
                   "def @f() {\n  let %x = add(\n    1,\n    2\n  );\n  %x\n}\n"))))

(ert-deftest relay-server ()
  (skip-unless (and (getenv "RELAX_LSP") (require 'eglot nil t)))
  (let* ((dir (make-temp-file "relay" t))
         (file (expand-file-name "broken.relay" dir))
         (eglot-server-programs `((relay-mode . (,(getenv "RELAX_LSP")))))
         (eglot-autoshutdown t)
         (eglot-sync-connect 30))
    (with-temp-file file
      (insert "def @main(%x: float32) {\n      nn.relux(%x)\n}\n"))
    (with-current-buffer (find-file-noselect file)
      (unwind-protect
          (progn
            (apply #'eglot (eglot--guess-contact))
            (should (eglot-managed-p))
            (flymake-start)
            (cl-loop repeat 200 until (flymake-diagnostics) do (accept-process-output nil 0.1))
            (should (string-match-p "nn\\.relux"
                                    (flymake-diagnostic-text (car (flymake-diagnostics)))))
            (goto-char (point-min))
            (search-forward "relux")
            (delete-char -1)
            (eglot-format-buffer)
            (should (equal (buffer-string) "def @main(%x: float32) {\n  nn.relu(%x)\n}\n")))
        (set-buffer-modified-p nil)
        (eglot-shutdown (eglot-current-server))))))

(ert-deftest relay-server-python ()
  (skip-unless (and (getenv "RELAX_LSP") (require 'eglot nil t)))
  (let* ((dir (make-temp-file "relax" t))
         (file (expand-file-name "broken.py" dir))
         (eglot-server-programs `(((relax-tvmscript-mode :language-id "tvmscript") . (,(getenv "RELAX_LSP")))))
         (eglot-autoshutdown t)
         (eglot-sync-connect 30))
    (with-temp-file file
      (insert "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2,), \"float32\")):\n"
              "        y = R.nn.relux(x)\n        return y\n"))
    (with-current-buffer (find-file-noselect file)
      (should (eq major-mode 'python-mode))
      (relax-tvmscript-mode)
      (unwind-protect
          (progn
            (apply #'eglot (eglot--guess-contact))
            (should (eglot-managed-p))
            (flymake-start)
            (cl-loop repeat 200 until (flymake-diagnostics) do (accept-process-output nil 0.1))
            (should (string-match-p "R\\.nn\\.relux"
                                    (flymake-diagnostic-text (car (flymake-diagnostics))))))
        (set-buffer-modified-p nil)
        (eglot-shutdown (eglot-current-server))))))

(ert-run-tests-batch-and-exit)
;;; test.el ends here
